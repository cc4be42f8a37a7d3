package topology

// Step is one change of one object on a broker. Exactly one field is set.
type Step struct {
	DeclareExchange *Exchange
	DeclareQueue    *Queue
	Bind            *Binding
	Unbind          *Binding
	DeleteExchange  *Exchange
	DeleteUnfed     *Unfed
	DeleteQueue     *Queue
	SetPolicy       *Policy
	DeletePolicy    *Policy
}

// Unfed is an exchange that takes the dead letters of one queue. It is deleted
// only if that queue does not exist: its messages would be lost.
type Unfed struct {
	Exchange Exchange
	Queue    string
}

// Stage is a group of steps that do not depend on each other. Stages are
// carried out one after the other.
type Stage []Step

// DeclareExchanges returns the steps that make every exchange of the topology.
func (t *Topology) DeclareExchanges() Stage {
	var stage Stage
	for _, e := range t.Exchanges() {
		stage = append(stage, Step{DeclareExchange: &e})
	}
	return stage
}

// DeclareQueues returns the steps that make those queues for which want says
// yes.
func (t *Topology) DeclareQueues(want func(Queue) bool) Stage {
	var stage Stage
	for _, q := range t.Queues() {
		if want(q) {
			stage = append(stage, Step{DeclareQueue: &q})
		}
	}
	return stage
}

// BindAll returns the steps that make those bindings for which want says yes.
func (t *Topology) BindAll(want func(Binding) bool) Stage {
	var stage Stage
	for _, b := range t.Bindings() {
		if want(b) {
			stage = append(stage, Step{Bind: &b})
		}
	}
	return stage
}

// UnbindAll returns the steps that remove those bindings for which want says
// yes.
func (t *Topology) UnbindAll(want func(Binding) bool) Stage {
	var stage Stage
	for _, b := range t.Bindings() {
		if want(b) {
			stage = append(stage, Step{Unbind: &b})
		}
	}
	return stage
}

// DeleteQueues returns the steps that delete every queue.
func (t *Topology) DeleteQueues() Stage {
	var stage Stage
	for _, q := range t.Queues() {
		stage = append(stage, Step{DeleteQueue: &q})
	}
	return stage
}

// DeleteExchanges returns the steps that delete every exchange.
func (t *Topology) DeleteExchanges() Stage {
	var stage Stage
	for _, e := range t.Exchanges() {
		stage = append(stage, Step{DeleteExchange: &e})
	}
	return stage
}

// SetPolicies returns the steps that make every policy of the topology.
func (t *Topology) SetPolicies() Stage {
	var stage Stage
	for _, p := range t.Policies() {
		stage = append(stage, Step{SetPolicy: &p})
	}
	return stage
}

// DeletePolicies returns the steps that delete every policy.
func (t *Topology) DeletePolicies() Stage {
	var stage Stage
	for _, p := range t.Policies() {
		stage = append(stage, Step{DeletePolicy: &p})
	}
	return stage
}
