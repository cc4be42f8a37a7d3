package broker

import (
	"context"
	"slices"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
)

// DeprecatedFeatures returns the names of the deprecated features that the
// broker says are in use, in any virtual host. There are none if it cannot say,
// as before 3.13. It asks once per process.
func (c *Client) DeprecatedFeatures(ctx context.Context) ([]string, error) {
	info, err := c.Info(ctx)
	if err != nil || !info.Version.Has(abilities.DeprecatedFeatures) {
		return nil, err
	}
	names, err := c.deprecated.get(ctx, "", c.loadDeprecated)
	if err != nil {
		return nil, err
	}
	return slices.Clone(*names), nil
}

func (c *Client) loadDeprecated(ctx context.Context, names *[]string) error {
	k := c.newCall(ctx, operation{text: "list the deprecated features in use"})
	// rabbit-hole does not know this path: any of its requests will do.
	k.path = "deprecated-features/used"
	found, err := get[[]struct {
		Name string `json:"name"`
	}](k, func(rh *rabbithole.Client) (any, error) { return rh.ListFeatureFlags() })
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, feature := range found {
		*names = append(*names, feature.Name)
	}
	slices.Sort(*names)
	return nil
}
