package retry

import (
	"slices"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
)

// lastDeathFlag is the feature flag that makes the broker write x-last-death-*
// (mc:record_death/3), see [abilities.LastDeathFlag].
const lastDeathFlag = "message_containers"

// NeedsFlags says whether the strategy needs a feature flag that the broker can
// have disabled.
func NeedsFlags(s Strategy, v abilities.Version) bool {
	d, _ := DesignOf(s)
	return d.NeedsLastDeath && v.Has(abilities.LastDeath) && v.Has(abilities.LastDeathFlag)
}

// FlagProblems tells whether the feature flag is missing that a strategy needs,
// see [NeedsFlags]. disabled are the flags that the broker has and that are not enabled;
// known is false if it does not show them to this user. attribute is where the
// problem shows.
func FlagProblems(attribute string, disabled []string, known bool) []Problem {
	const enable = "rabbitmqctl enable_feature_flag " + lastDeathFlag
	var p problems
	switch {
	case !known:
		p.warnf(attribute, "Feature Flag Not Checked",
			"The broker does not show its feature flags to this user. If %s is disabled, as after a rolling upgrade to RabbitMQ 3.13, "+
				"every message is parked at its first failure. Look with: rabbitmqctl list_feature_flags. Enable it "+
				"with: %s", lastDeathFlag, enable)
	case slices.Contains(disabled, lastDeathFlag):
		p.errorf(attribute, "Feature Flag Disabled",
			"The feature flag %s is disabled on this broker, as after a rolling upgrade to RabbitMQ 3.13. Without it RabbitMQ does not "+
				"write the headers x-last-death-*, and every message would be parked at its first failure. Enable it "+
				"with: %s", lastDeathFlag, enable)
	}
	return p
}
