package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/drain"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// warnOfRetiring says how many messages are in each tier that the plan retires. It is no
// planned value: the number changes all the time.
func (p *planning) warnOfRetiring(ctx context.Context, s Subject) {
	drainer, drains := s.(Drainer)
	if !drains || !p.asks() || p.diags.HasError() {
		return
	}
	var tiers []retry.Tier
	err := p.data.Client.View(ctx, vhost(p.planned), func(in *topology.Topology) {
		tiers = drainer.Retiring().Retired(s.Actual(in), s.Topology())
	})
	if err != nil {
		return // checkSurroundings says so
	}
	if before, is := p.prior.(DrainingModel); is {
		known := values.Texts(*before.DrainingTiers())
		tiers = slices.DeleteFunc(tiers, func(t retry.Tier) bool { return slices.Contains(known, t.Queue) })
	}
	if len(tiers) == 0 {
		return
	}
	p.diags.AddAttributeWarning(path.Root("delays"), "Tiers Retire",
		fmt.Sprintf("No message enters these tiers of the %s %q any more:\n\n  %s\n\nTheir messages come back when their delay is "+
			"over. Then the tiers are deleted, by this apply or, if it takes longer, by a later one. The numbers can be some seconds "+
			"old.",
			p.Words.Noun, name(p.planned), strings.Join(p.counted(ctx, tiers), "\n  ")))
}

// counted names each tier with what is in it.
func (p *planning) counted(ctx context.Context, tiers []retry.Tier) []string {
	lines := make([]string, 0, len(tiers))
	for _, tier := range tiers {
		content := "number of messages not known"
		if counts, err := p.data.Client.Counts(ctx, vhost(p.planned), tier.Queue); err == nil {
			content = counts.String()
		}
		lines = append(lines, tier.Queue+": "+content)
	}
	return lines
}

// drain waits for the tiers that an update has retired. It returns false when one was
// removed only in part.
func (r *Resource) drain(ctx context.Context, m Model, d *drain.Drain, diags *diag.Diagnostics) bool {
	err, left := d.Wait(ctx), d.Left()
	var half *drain.RemovalError
	switch {
	case errors.As(err, &half):
		diagnostics.AddError(diags, "Tiers Not Removed", half.Err)
		return false
	case err != nil && ctx.Err() == nil:
		diags.AddAttributeWarning(path.Root("draining"), "Tiers Not Removed",
			fmt.Sprintf("%s is changed, and no new messages enter these tiers. They could not be proved empty and removed: %s.\n\n  "+
				"%s\n\nMend the cause and apply again.",
				r.label(m), strings.TrimSuffix(err.Error(), "."), lines(left)))
	case len(left) > 0:
		diags.AddAttributeWarning(path.Root("draining"), "Tiers Still Draining",
			fmt.Sprintf("%s is changed, and no new messages enter these tiers of before:\n\n  %s\n\nTheir messages come back to the "+
				"work queue when their delay is over. A later plan that finds a tier empty shows its removal.", r.label(m), lines(left)))
	}
	return true
}
