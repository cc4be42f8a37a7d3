package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// write makes a call that changes something in a virtual host. When it is not
// certain whether the broker did it, the snapshot is forgotten.
func (c *Client) write(ctx context.Context, op operation, body []byte, send func(*rabbithole.Client) error) (*call, error) {
	k := c.newCall(ctx, op)
	k.body = body
	err := k.do(send)
	if err == nil && k.status == http.StatusNotFound {
		// Only a DELETE gets here: the object is gone, if the virtual host is not.
		err = c.checkVhost(ctx, op.vhost)
	}
	if err != nil && k.uncertain {
		c.Reload(op.vhost)
	}
	return k, err
}

// Made says whether a PUT made the object.
type Made int

const (
	// Existed says that the same object was there (204).
	Existed Made = iota
	// MaybeMade says that it was there, and that an earlier try whose outcome is unknown may have
	// made it, or another run meanwhile. It may be used, but must not be deleted as if
	// it were certain to be ours.
	MaybeMade
	// MadeHere says that the PUT made it (201).
	MadeHere
)

func (k *call) made() Made {
	switch {
	case k.status == http.StatusCreated:
		return MadeHere
	case k.uncertain:
		return MaybeMade
	}
	return Existed
}

// DeclareExchange makes the exchange. created is false when an exchange of the
// same properties existed already. RabbitMQ compares all properties, but of
// the arguments only the alternate exchange (3.10 to 4.3). An exchange of
// other properties is an [InequivalentError].
//
// When an earlier try of the same call may have reached the broker, created is
// true although the exchange may have existed. An exchange that RabbitMQ reports
// as created exists, see [Client.ensureDeclared].
func (c *Client) DeclareExchange(ctx context.Context, vhost string, e topology.Exchange) (created bool, err error) {
	made, err := c.declareSureExchange(ctx, vhost, e)
	return made != Existed, err
}

func (c *Client) declareSureExchange(ctx context.Context, vhost string, e topology.Exchange) (Made, error) {
	if err := checkNames(vhost, e.Name); err != nil {
		return Existed, err
	}
	k, err := c.declareExchange(ctx, vhost, e)
	if err == nil && k.made() != Existed {
		err = c.ensureDeclared(ctx, vhost, e.Name, func() error {
			_, err := c.declareExchange(ctx, vhost, e)
			return err
		})
	}
	if err != nil {
		return Existed, err
	}
	c.wrote(vhost, func(t *topology.Topology) {
		// An argument that RabbitMQ does not compare keeps its old value.
		if _, known := t.Exchange(e.Name); k.made() != Existed || !known {
			t.SetExchange(e)
		}
	})
	return k.made(), nil
}

// declareExchange is one call.
func (c *Client) declareExchange(ctx context.Context, vhost string, e topology.Exchange) (*call, error) {
	op := operation{
		text:   fmt.Sprintf("declare exchange %q in vhost %q", e.Name, vhost),
		vhost:  vhost,
		object: fmt.Sprintf("exchange %q", e.Name),
		needs:  declareNeeds(e.Name, e.Arguments, topology.AlternateExchange),
	}
	settings := rabbithole.ExchangeSettings{
		Type:       e.Type,
		Durable:    e.Durable,
		AutoDelete: e.AutoDelete,
		Arguments:  toJSON(e.Arguments),
	}
	var body []byte
	if e.Internal {
		// rabbit-hole's settings have no such field.
		var err error
		body, err = json.Marshal(struct {
			rabbithole.ExchangeSettings
			Internal bool `json:"internal"`
		}{settings, true})
		if err != nil {
			return nil, fmt.Errorf("could not %s: %w", op.text, err)
		}
	}
	return c.write(ctx, op, body, func(rh *rabbithole.Client) error {
		return closed(rh.DeclareExchange(vhost, e.Name, settings))
	})
}

// DeclareQueue makes the queue, a classic one when it has no type. created is
// false when a queue of the same properties existed already. RabbitMQ compares
// the arguments that it knows (3.10 to 4.3). A queue of other properties is an
// [InequivalentError].
//
// When an earlier try of the same call may have reached the broker, created is
// true although the queue may have existed. A quorum queue is then made again if
// that can be done, see [Client.RemoveUnfinished].
func (c *Client) DeclareQueue(ctx context.Context, vhost string, q topology.Queue) (created bool, err error) {
	made, err := c.declareWholeQueue(ctx, vhost, q)
	return made != Existed, err
}

func (c *Client) declareWholeQueue(ctx context.Context, vhost string, q topology.Queue) (Made, error) {
	if err := checkNames(vhost, q.Name); err != nil {
		return Existed, err
	}
	if q.Type == "" {
		q.Type = topology.Classic
	}
	made, unsure, err := c.declareQueue(ctx, vhost, q)
	if err != nil || !unsure {
		return made, err
	}
	unfinished, err := c.RemoveUnfinished(ctx, vhost, []topology.Queue{q})
	if err == nil && len(unfinished) > 0 {
		made, _, err = c.declareQueue(ctx, vhost, q)
	}
	return made, err
}

// declareQueue is one call. unsure says that an earlier try of it may have been
// broken off, see [Client.RemoveUnfinished].
func (c *Client) declareQueue(ctx context.Context, vhost string, q topology.Queue) (made Made, unsure bool, err error) {
	op := operation{
		text:   fmt.Sprintf("declare queue %q in vhost %q", q.Name, vhost),
		vhost:  vhost,
		object: fmt.Sprintf("queue %q", q.Name),
		needs:  declareNeeds(q.Name, q.Arguments, topology.DeadLetterExchange),
	}
	node := c.leaderNode(ctx, q)
	k, err := c.putQueue(ctx, op, q, node)
	if node != "" && lostNode(err) {
		// The node may have died while it declared the queue.
		c.leaders.running.forget("")
		k, err = c.putQueue(ctx, op, q, "")
		k.uncertain = true
	}
	if err != nil {
		return Existed, k.uncertain, err
	}
	c.wrote(vhost, func(t *topology.Topology) {
		// An argument that RabbitMQ does not know keeps its old value.
		if _, known := t.Queue(q.Name); k.made() != Existed || !known {
			t.SetQueue(q)
		}
	})
	return k.made(), k.uncertain, nil
}

// putQueue is one request, for the node or, if that is "", for the one that answers.
func (c *Client) putQueue(ctx context.Context, op operation, q topology.Queue, node string) (*call, error) {
	settings := rabbithole.QueueSettings{
		Type:       string(q.Type),
		Durable:    q.Durable,
		AutoDelete: q.AutoDelete,
		Arguments:  toJSON(q.Arguments),
	}
	settings.Arguments[topology.QueueTypeArgument] = settings.Type
	// rabbit-hole's settings have no node.
	body, err := json.Marshal(struct {
		rabbithole.QueueSettings
		Node string `json:"node,omitempty"`
	}{settings, node})
	if err != nil {
		return &call{}, fmt.Errorf("could not %s: %w", op.text, err)
	}
	return c.write(ctx, op, body, func(rh *rabbithole.Client) error {
		return closed(rh.DeclareQueue(op.vhost, q.Name, settings))
	})
}

// declareNeeds lists what rabbit_channel checks at a declaration (3.10 to 4.3):
// the right to read and write where the object passes messages on applies to
// new objects only.
func declareNeeds(name string, args topology.Arguments, target string) string {
	needs := fmt.Sprintf("configure on %q", name)
	if to, ok := args[target].(string); ok {
		if to == "" {
			to = "amq.default"
		}
		needs += fmt.Sprintf(", read on %q and write on %q", name, to)
	}
	return needs
}

// Bind makes the binding. It is not an error if it exists.
//
// When an earlier try of the call may have been broken off, the binding is
// deleted and made again: RabbitMQ 4.0.5 then often lists a binding of a topic
// exchange through which no message goes, and making it again changes nothing
// (61 of 135; not seen on 3.10.8 and 4.3.6, nor with other exchanges).
func (c *Client) Bind(ctx context.Context, vhost string, b topology.Binding) error {
	for {
		unsure, err := c.bind(ctx, vhost, b)
		if err != nil || !unsure {
			return err
		}
		if err := c.Unbind(ctx, vhost, b); err != nil {
			return err
		}
	}
}

// bind is one call. unsure says that an earlier try of it may have been broken
// off.
func (c *Client) bind(ctx context.Context, vhost string, b topology.Binding) (unsure bool, err error) {
	op, err := bindingOperation("bind", "to", vhost, b)
	if err != nil {
		return false, err
	}
	k, err := c.write(ctx, op, nil, func(rh *rabbithole.Client) error {
		return closed(rh.DeclareBinding(vhost, rabbithole.BindingInfo{
			Source:          b.Source,
			Destination:     b.Destination,
			DestinationType: string(b.DestinationKind),
			RoutingKey:      b.RoutingKey,
			Arguments:       toJSON(b.Arguments),
		}))
	})
	if err != nil {
		return false, err
	}
	c.wrote(vhost, func(t *topology.Topology) { t.Bind(b) })
	return k.uncertain, nil
}

// Unbind deletes the binding. It is not an error if it is gone.
func (c *Client) Unbind(ctx context.Context, vhost string, b topology.Binding) error {
	op, err := bindingOperation("unbind", "from", vhost, b)
	if err != nil {
		return err
	}
	keys, err := c.bindingKeys(ctx, op, vhost, b)
	if err != nil {
		return err
	}
	for _, key := range keys {
		_, err := c.write(ctx, op, nil, func(rh *rabbithole.Client) error {
			return closed(rh.DeleteBinding(vhost, rabbithole.BindingInfo{
				Source:          b.Source,
				Destination:     b.Destination,
				DestinationType: string(b.DestinationKind),
				PropertiesKey:   key,
			}))
		})
		if err != nil {
			return err
		}
	}
	c.wrote(vhost, func(t *topology.Topology) { unbind(t, b) })
	return nil
}

// bindingKeys returns the keys under which RabbitMQ has the binding: none when
// it is gone, and more than one when it was made with integers of different
// sizes, which JSON does not tell apart. The key holds a hash of Erlang terms
// and cannot be computed here (rabbit_mgmt_format:pack_binding_props/2).
func (c *Client) bindingKeys(ctx context.Context, op operation, vhost string, b topology.Binding) ([]string, error) {
	k := c.newCall(ctx, op)
	between, err := get[[]bindingJSON](k, func(rh *rabbithole.Client) (any, error) {
		if b.DestinationKind == topology.KindExchange {
			return rh.ListExchangeBindingsBetween(vhost, b.Source, b.Destination)
		}
		return rh.ListQueueBindingsBetween(vhost, b.Source, b.Destination)
	})
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, other := range between {
		if other.binding().ID() == b.ID() {
			keys = append(keys, other.PropertiesKey)
		}
	}
	return keys, nil
}

func bindingOperation(verb, preposition, vhost string, b topology.Binding) (operation, error) {
	if b.DestinationKind != topology.KindQueue && b.DestinationKind != topology.KindExchange {
		return operation{}, fmt.Errorf("a binding cannot lead to a %q", b.DestinationKind)
	}
	object := fmt.Sprintf("%s %q", b.DestinationKind, b.Destination)
	return operation{
		text:   fmt.Sprintf("%s %s %s exchange %q in vhost %q", verb, object, preposition, b.Source, vhost),
		vhost:  vhost,
		object: object,
		needs:  fmt.Sprintf("write on %q and read on %q", b.Destination, b.Source),
	}, checkNames(vhost, b.Source, b.Destination)
}

// DeleteExchange deletes the exchange and its bindings. It is not an error if it
// is gone.
func (c *Client) DeleteExchange(ctx context.Context, vhost, name string) error {
	if err := checkNames(vhost, name); err != nil {
		return err
	}
	op := operation{
		text:   fmt.Sprintf("delete exchange %q in vhost %q", name, vhost),
		vhost:  vhost,
		object: fmt.Sprintf("exchange %q", name),
		needs:  fmt.Sprintf("configure on %q", name),
	}
	k, err := c.write(ctx, op, nil, func(rh *rabbithole.Client) error {
		return closed(rh.DeleteExchange(vhost, name))
	})
	if err == nil && k.uncertain {
		err = c.afterDeletion(ctx, vhost, name)
	}
	if err != nil {
		return err
	}
	c.wrote(vhost, func(t *topology.Topology) { dropExchange(t, name) })
	return nil
}

// deleteUnfed asks the broker for the queue right before, because the snapshot can
// be older than what another apply is making.
func (c *Client) deleteUnfed(ctx context.Context, vhost string, u topology.Unfed) error {
	_, exists, err := c.Queue(ctx, vhost, u.Queue)
	switch {
	case err != nil:
		return err
	case exists:
		return &FedError{Vhost: vhost, Exchange: u.Exchange.Name, Queue: u.Queue}
	}
	return c.DeleteExchange(ctx, vhost, u.Exchange.Name)
}

// unbind removes a binding, and as RabbitMQ does, an auto-delete exchange with
// its last binding to anywhere.
func unbind(t *topology.Topology, b topology.Binding) {
	if !t.Has(b) {
		return
	}
	t.Unbind(b)
	if e, ok := t.Exchange(b.Source); ok && e.AutoDelete && len(t.From(b.Source)) == 0 {
		dropExchange(t, b.Source)
	}
}

func dropExchange(t *topology.Topology, name string) {
	incoming := append([]topology.Binding(nil), t.To(topology.KindExchange, name)...)
	for _, b := range incoming {
		if b.Source != name {
			unbind(t, b)
		}
	}
	t.RemoveExchange(name)
}

func dropQueue(t *topology.Topology, name string) {
	incoming := append([]topology.Binding(nil), t.To(topology.KindQueue, name)...)
	for _, b := range incoming {
		unbind(t, b)
	}
	t.RemoveQueue(name)
}

// refusedInUse recognizes the refusal of a delete with if-empty or if-unused
// (rabbit_amqqueue:delete_with/6, 3.10 to 4.3).
func refusedInUse(reason string) (why string, refused bool) {
	switch {
	case strings.HasSuffix(reason, " not empty"):
		return "it holds messages", true
	case strings.HasSuffix(reason, " in use"):
		return "it has consumers", true
	default:
		return "", false
	}
}
