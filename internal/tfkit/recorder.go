package tfkit

import (
	"fmt"
	"sync"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Recorder remembers what a create has made, so that it can be undone.
type Recorder struct {
	mu       sync.Mutex
	subject  string
	topology *topology.Topology
}

// NewRecorder returns a recorder of nothing. subject is what is being created,
// such as "this chain".
func NewRecorder(subject string) *Recorder {
	return &Recorder{subject: subject, topology: topology.New()}
}

// Topology returns what was made. Call it when the create is over.
func (r *Recorder) Topology() *topology.Topology { return r.topology }

// Record takes a step that is done. An object that was there already is not
// the create's own: that is an error, which ends the create.
func (r *Recorder) Record(step topology.Step, created bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case step.DeclareExchange != nil && created:
		r.topology.SetExchange(*step.DeclareExchange)
	case step.DeclareQueue != nil && created:
		r.topology.SetQueue(*step.DeclareQueue)
	case step.SetPolicy != nil && created:
		r.topology.SetPolicy(*step.SetPolicy)
	case step.DeclareExchange != nil:
		return r.taken("exchange", step.DeclareExchange.Name)
	case step.DeclareQueue != nil:
		return r.taken("queue", step.DeclareQueue.Name)
	case step.SetPolicy != nil:
		return r.taken("policy", step.SetPolicy.Name)
	}
	return nil
}

func (r *Recorder) taken(kind, name string) error {
	return fmt.Errorf("%s %q was made by somebody else while %s was being created", kind, name, r.subject)
}
