package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
)

// exchangeDeletion is the component of the runtime parameter by which RabbitMQ
// marks an exchange while it deletes it (rabbit_exchange:delete/3). A deletion whose
// connection ends can leave the mark behind. As long as it is set, RabbitMQ answers
// 201 to a declaration and declares nothing (rabbit_exchange:declare/7; seen on
// 4.0.5 and 4.3.6).
const exchangeDeletion = "exchange-delete-in-progress"

// A node of a cluster can show a new exchange a moment after another one has
// declared it.
const (
	exchangeLooks = 10
	exchangePause = 200 * time.Millisecond
)

// HalfDeletedError says that RabbitMQ does not declare an exchange, because an
// earlier deletion of it was broken off and left its mark.
type HalfDeletedError struct {
	Vhost    string
	Exchange string
	Err      error
}

func (e *HalfDeletedError) Error() string {
	return fmt.Sprintf("RabbitMQ reported that exchange %q was declared in vhost %q, but it does not exist: an earlier deletion of it "+
		"was interrupted and left a mark. Remove the mark and apply again: rabbitmqctl clear_parameter -p %q %s %q (could not remove "+
		"it: %v)",
		e.Exchange, e.Vhost, e.Vhost, exchangeDeletion, e.Exchange, e.Err)
}

func (e *HalfDeletedError) Unwrap() error { return e.Err }

var errNotDeclared = errors.New("the exchange is still missing without the mark; the log of RabbitMQ may say why")

// ensureDeclared checks that an exchange exists for whose declaration RabbitMQ
// answered 201. If not, it removes the mark of a broken-off deletion and calls
// declare again. The error is a [HalfDeletedError] if that is not possible.
func (c *Client) ensureDeclared(ctx context.Context, vhost, name string, declare func() error) error {
	exists, err := c.appears(ctx, vhost, name)
	if err != nil || exists {
		return err
	}
	if err := c.clearDeletion(ctx, vhost, name); err != nil {
		return &HalfDeletedError{Vhost: vhost, Exchange: name, Err: err}
	}
	if err := declare(); err != nil {
		return err
	}
	exists, err = c.appears(ctx, vhost, name)
	if err == nil && !exists {
		err = &HalfDeletedError{Vhost: vhost, Exchange: name, Err: errNotDeclared}
	}
	return err
}

// appears waits a moment for the exchange.
func (c *Client) appears(ctx context.Context, vhost, name string) (bool, error) {
	for look := 1; ; look++ {
		exists, err := c.ExchangeExists(ctx, vhost, name)
		if err != nil || exists || look == exchangeLooks {
			return exists, err
		}
		if err := c.sleep(ctx, exchangePause); err != nil {
			return false, err
		}
	}
}

// clearDeletion removes the mark of a deletion, if there is one.
func (c *Client) clearDeletion(ctx context.Context, vhost, name string) error {
	op := operation{
		text:   fmt.Sprintf("remove the mark of the deletion of exchange %q in vhost %q", name, vhost),
		vhost:  vhost,
		object: fmt.Sprintf("exchange %q", name),
		needs:  needsPolicymaker, // rabbit_mgmt_wm_parameter:is_authorized/2
		tag:    "policymaker",
	}
	_, err := c.write(ctx, op, nil, func(rh *rabbithole.Client) error {
		return closed(rh.DeleteRuntimeParameter(exchangeDeletion, vhost, name))
	})
	return err
}

// afterDeletion removes the mark that a broken-off try of a deletion may have
// left. A user who may not do so leaves it to the next declaration, which says what
// to do.
func (c *Client) afterDeletion(ctx context.Context, vhost, name string) error {
	err := c.clearDeletion(ctx, vhost, name)
	var denied *PermissionError
	if errors.As(err, &denied) {
		return nil
	}
	return err
}
