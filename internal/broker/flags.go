package broker

import (
	"context"
	"errors"
	"net/http"
	"slices"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
)

// featureFlags are the flags that the broker has and that are not enabled.
type featureFlags struct {
	// known is false if the broker does not show them to this user.
	known    bool
	disabled []string
}

// DisabledFlags returns the names of the feature flags that the broker has and
// that are not enabled, as after a rolling upgrade. known is false if it does not show
// them to this user: up to 3.12 only to administrators, since 3.13 to every user of the
// management API (rabbit_mgmt_wm_feature_flags). It asks
// once per process; a failure is not kept.
func (c *Client) DisabledFlags(ctx context.Context) (names []string, known bool, err error) {
	flags, err := c.flags.get(ctx, "", c.loadFlags)
	if err != nil {
		return nil, false, err
	}
	return slices.Clone(flags.disabled), flags.known, nil
}

func (c *Client) loadFlags(ctx context.Context, flags *featureFlags) error {
	k := c.newCall(ctx, operation{text: "list the feature flags"})
	found, err := fetch[[]struct {
		Name  string `json:"name"`
		State string `json:"state"`
	}](k, func(rh *rabbithole.Client) (any, error) { return rh.ListFeatureFlags() })
	var answer *APIError
	if errors.As(err, &answer) && (answer.Status == http.StatusUnauthorized || answer.Status == http.StatusNotFound) {
		return c.checkLogin(ctx)
	}
	if err != nil {
		return err
	}
	flags.known = true
	for _, flag := range found {
		if flag.State != "enabled" {
			flags.disabled = append(flags.disabled, flag.Name)
		}
	}
	return nil
}
