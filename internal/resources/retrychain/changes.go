package retrychain

import (
	"fmt"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

func (m *model) Changes(prior lifecycle.Model) (changes []lifecycle.Change, idle bool) {
	before, is := prior.(*model)
	if !is || !m.Known() {
		return nil, false
	}
	old, c, have := before.chain(), m.chain(), values.LinesOf(before.Topology)
	what, queue := "A queue", "its work queue"
	if old.Work.Existing {
		what, queue = "An exchange or a queue", "the queue that it is for, which has to be another one"
	}
	for _, change := range old.FixedChanges(c) {
		changes = append(changes, lifecycle.Change{
			Attribute: change.Attribute, Reason: change.Reason,
			Instead: fmt.Sprintf("%s would have to be deleted and declared again, and messages that arrive in between would be lost. "+
				"Undo the change, or make it by hand without a gap: add a chain of another name with the new value, move publishers "+
				"and then consumers to %s, and remove this chain when its queues are empty.", what, queue),
		})
	}
	return changes, old.IsIdle(c, have)
}

// Stopped is for [lifecycle.Stopper].
func (s subject) Stopped(have topology.Lines, wanted *topology.Topology) string {
	missing, fate := s.Stopping(have, wanted)
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("Objects are missing without which the chain %q does not work:\n\n  %s\n\nUntil this plan is applied, %s.",
		s.Name, strings.Join(missing, "\n  "), fate)
}
