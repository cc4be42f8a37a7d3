package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
)

// Shovel is a dynamic shovel of a virtual host.
type Shovel struct {
	Name string
	// AckMode is "on-confirm", "on-publish" or "no-ack".
	AckMode string
}

// Shovels are the dynamic shovels of a virtual host, as far as they are known.
type Shovels struct {
	List []Shovel
	// Unknown says why they could not be read, or is empty.
	Unknown string
}

// Shovels returns the dynamic shovels of the virtual host. It asks once per process.
// RabbitMQ shows them to users with the tag policymaker or administrator
// (rabbit_mgmt_wm_parameters:is_authorized/2, 3.10 to 4.3).
func (c *Client) Shovels(ctx context.Context, vhost string) (Shovels, error) {
	found, err := c.shovels.get(ctx, vhost, func(ctx context.Context, s *Shovels) error { return c.loadShovels(ctx, vhost, s) })
	if err != nil {
		return Shovels{}, err
	}
	return *found, nil
}

func (c *Client) loadShovels(ctx context.Context, vhost string, s *Shovels) error {
	k := c.newCall(ctx, operation{text: fmt.Sprintf("list the shovels of vhost %q", vhost), vhost: vhost, tag: "policymaker"})
	// The rest of a shovel's definition holds credentials.
	list, err := get[[]struct {
		Name  string `json:"name"`
		Value struct {
			AckMode string `json:"ack-mode"`
		} `json:"value"`
	}](k, func(rh *rabbithole.Client) (any, error) { return rh.ListShovelsIn(vhost) })
	var refused *PermissionError
	switch {
	case errors.As(err, &refused):
		s.Unknown = fmt.Sprintf("the user %q lacks the tag policymaker", c.Username())
		return nil
	case isNotFound(err):
		s.Unknown = "the broker does not list them"
		return nil
	case err != nil:
		return err
	}
	for _, found := range list {
		s.List = append(s.List, Shovel{Name: found.Name, AckMode: cmp.Or(found.Value.AckMode, "on-confirm")})
	}
	return nil
}
