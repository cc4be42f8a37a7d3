package lifecycle

import (
	"fmt"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Recorder remembers what a create has made, so that it can be undone.
type Recorder struct {
	mu       sync.Mutex
	subject  string
	topology *topology.Topology
	// unsure are the objects that another run may have made.
	unsure []string
}

// NewRecorder returns a recorder of nothing. subject is what is being created,
// such as "this chain".
func NewRecorder(subject string) *Recorder {
	return &Recorder{subject: subject, topology: topology.New()}
}

// Topology returns what is certain to have been made by the create: an undo may delete
// it. Call it when the create is over.
func (r *Recorder) Topology() *topology.Topology { return r.topology }

// Unsure adds a warning that names the objects which an undo leaves, because another
// run may have made them.
func (r *Recorder) Unsure(diags *diag.Diagnostics) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.unsure) == 0 {
		return
	}
	diags.AddWarning("Objects Left on the Broker",
		fmt.Sprintf("A request got no clear answer, and so either %s or another run made these objects:\n\n  %s\n\nThey were not "+
			"removed. If nobody else manages them, import them.",
			r.subject, strings.Join(r.unsure, "\n  ")))
}

// Record takes a step that is done. An object that was there already is not
// the create's own: that is an error, which ends the create.
func (r *Recorder) Record(step topology.Step, made broker.Made) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var kind, name string
	var set func()
	switch {
	case step.DeclareExchange != nil:
		kind, name, set = "exchange", step.DeclareExchange.Name, func() { r.topology.SetExchange(*step.DeclareExchange) }
	case step.DeclareQueue != nil:
		kind, name, set = "queue", step.DeclareQueue.Name, func() { r.topology.SetQueue(*step.DeclareQueue) }
	case step.SetPolicy != nil:
		kind, name, set = "policy", step.SetPolicy.Name, func() { r.topology.SetPolicy(*step.SetPolicy) }
	case step.Bind != nil: // RabbitMQ does not say whether a binding is new
		r.topology.Bind(*step.Bind)
		return nil
	default:
		return nil
	}
	switch made {
	case broker.MadeHere:
		set()
	case broker.MaybeMade:
		r.unsure = append(r.unsure, fmt.Sprintf("%s %q", kind, name))
	default:
		return r.taken(kind, name)
	}
	return nil
}

func (r *Recorder) taken(kind, name string) error {
	return fmt.Errorf("%s %q was made by somebody else while %s was being created", kind, name, r.subject)
}
