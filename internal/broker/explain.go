package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
)

// accessMemory is how long a virtual host that answered counts as accessible,
// so that looking for twenty missing objects does not ask forty times.
const accessMemory = 5 * time.Second

// do makes a call and explains its error.
func (k *call) do(send func(*rabbithole.Client) error) error {
	err := k.run(send)
	if err != nil {
		return k.client.explain(k.ctx, k.op, err)
	}
	return nil
}

// explain finds out what a refusal means. A 401 can be wrong credentials, a
// virtual host out of reach or a missing permission, and since 4.2.9 and 4.3.3
// a virtual host out of reach answers 404 (rabbitmq-server 1a868b5483).
func (c *Client) explain(ctx context.Context, op operation, err error) error {
	var answer *APIError
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.Status {
	case http.StatusUnauthorized:
		if err := c.checkLogin(ctx); err != nil {
			return err
		}
		if err := c.askVhost(ctx, op.vhost); err != nil {
			return err
		}
		return c.permissionError(ctx, op, answer)
	case http.StatusNotFound:
		if err := c.checkVhost(ctx, op.vhost); err != nil {
			return err
		}
		return &NotFoundError{Operation: op.text, Reason: answer.Reason}
	case http.StatusBadRequest:
		// RabbitMQ 3.10 to 4.3: rabbit_misc:assert_args_equivalence/4.
		if strings.HasPrefix(answer.Reason, "inequivalent arg") {
			return &InequivalentError{Operation: op.text, Vhost: op.vhost, Object: op.object, Reason: answer.Reason}
		}
	}
	return err
}

// checkLogin fails when the broker does not let our user in at all.
func (c *Client) checkLogin(ctx context.Context) error {
	_, err := c.whoami(ctx)
	return err
}

// whoami returns the tags of our user.
func (c *Client) whoami(ctx context.Context) ([]string, error) {
	k := c.newCall(ctx, operation{text: "ask who the user is"})
	user, err := fetch[struct {
		Name string              `json:"name"`
		Tags rabbithole.UserTags `json:"tags"`
	}](k, func(rh *rabbithole.Client) (any, error) { return rh.Whoami() })
	var answer *APIError
	if errors.As(err, &answer) && answer.Status == http.StatusUnauthorized {
		return nil, c.refusal(c.Endpoint(), answer.Reason)
	}
	if err != nil {
		return nil, err
	}
	if c.token != nil {
		c.token.user.Store(&user.Name)
	}
	return user.Tags, nil
}

// checkVhost fails when the virtual host does not exist or our user cannot
// read it, as far as that can have changed since it last answered.
func (c *Client) checkVhost(ctx context.Context, vhost string) error {
	if c.access.recent(vhost, accessMemory) {
		return nil
	}
	return c.askVhost(ctx, vhost)
}

// askVhost asks the broker whether our user can read the virtual host. It asks for an exchange that every virtual host has: the list of
// virtual hosts shows administrators and monitoring users also those in which
// they have no rights.
func (c *Client) askVhost(ctx context.Context, vhost string) error {
	if vhost == "" {
		return nil
	}
	op := operation{text: fmt.Sprintf("read the vhost %q", vhost), vhost: vhost}
	k := c.newCall(ctx, op)
	k.query = url.Values{"columns": {"name"}}
	err := k.run(func(rh *rabbithole.Client) error {
		_, err := rh.GetExchange(vhost, "amq.direct")
		return err
	})
	var answer *APIError
	if !errors.As(err, &answer) || answer.Status != http.StatusUnauthorized && answer.Status != http.StatusNotFound {
		return err
	}
	return c.vhostError(ctx, vhost)
}

func (c *Client) vhostError(ctx context.Context, vhost string) error {
	tags, err := c.whoami(ctx)
	if err != nil {
		return err
	}
	visible, err := c.Vhosts(ctx)
	if err != nil {
		return err
	}
	return &VhostError{
		Endpoint: c.Endpoint(),
		Username: c.Username(),
		Token:    c.UsesToken(),
		Vhost:    vhost,
		Exists:   slices.Contains(visible, vhost),
		All:      slices.Contains(tags, "administrator") || slices.Contains(tags, "monitoring"),
	}
}

func (c *Client) permissionError(ctx context.Context, op operation, answer *APIError) error {
	if err := c.unlessExpired(c.Endpoint(), answer); is[*CredentialsError](err) {
		return err
	}
	e := &PermissionError{
		Operation: op.text,
		Username:  c.Username(),
		Token:     c.UsesToken(),
		Vhost:     op.vhost,
		Object:    op.object,
		Needs:     op.needs,
		Tag:       op.tag,
		Reason:    answer.Reason,
	}
	if op.vhost == "" || op.tag != "" {
		return e
	}
	if p, err := c.loadPermissions(ctx); err == nil && p.known {
		has := p.vhosts[op.vhost]
		e.Has = fmt.Sprintf("configure=%q write=%q read=%q", has.Configure, has.Write, has.Read)
	}
	return e
}
