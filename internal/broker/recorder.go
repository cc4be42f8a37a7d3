package broker

import (
	"fmt"
	"sync"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Recorder remembers what the steps of a create have made, so that they can be undone: its
// method Record is for [Client.Apply].
type Recorder struct {
	mu       sync.Mutex
	subject  string
	topology *topology.Topology
	unsure   []string
}

// NewRecorder returns a recorder of nothing. subject is what is being created,
// such as "this chain".
func NewRecorder(subject string) *Recorder {
	return &Recorder{subject: subject, topology: topology.New()}
}

// Topology returns what is certain to have been made by the create: an undo may delete
// it. Call it when the create is over.
func (r *Recorder) Topology() *topology.Topology { return r.topology }

// Unsure names the objects which an undo leaves, because another run may have made them:
// a request for them got no clear answer. Call it when the create is over.
func (r *Recorder) Unsure() []string { return r.unsure }

// Record takes a step that is done. An object that was there already is not
// the create's own: that is an error, which ends the create.
func (r *Recorder) Record(step topology.Step, made Made) error {
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
	case MadeHere:
		set()
	case MaybeMade:
		r.unsure = append(r.unsure, fmt.Sprintf("%s %q", kind, name))
	default:
		return r.taken(kind, name)
	}
	return nil
}

func (r *Recorder) taken(kind, name string) error {
	return fmt.Errorf("%s %q was made by somebody else while %s was being created", kind, name, r.subject)
}
