package topology

// Difference is what must change to get from one topology to another.
type Difference struct {
	// Missing is wanted and not there.
	Missing *Topology
	// Extra is there and not wanted.
	Extra *Topology
	// Exchanges and Queues are there under the wanted name with other
	// properties. RabbitMQ cannot change them in place.
	Exchanges []Change[Exchange]
	Queues    []Change[Queue]
	// Policies are there with another effect. They are changed in place.
	Policies []Change[Policy]
}

// Change is an object that exists in another form than the wanted one.
type Change[T any] struct {
	Actual, Wanted T
}

// Empty says whether the topologies are the same.
func (d Difference) Empty() bool {
	return d.Missing.Empty() && d.Extra.Empty() && len(d.Exchanges) == 0 && len(d.Queues) == 0 && len(d.Policies) == 0
}

// Diff compares what is there with what is wanted.
func Diff(actual, wanted *Topology) Difference {
	d := Difference{Missing: New(), Extra: New()}
	diffExchanges(&d, actual, wanted)
	diffQueues(&d, actual, wanted)
	for _, b := range wanted.Bindings() {
		if !actual.Has(b) {
			d.Missing.Bind(b)
		}
	}
	for _, b := range actual.Bindings() {
		if !wanted.Has(b) {
			d.Extra.Bind(b)
		}
	}
	diffPolicies(&d, actual, wanted)
	return d
}

func diffPolicies(d *Difference, actual, wanted *Topology) {
	for _, w := range wanted.Policies() {
		a, exists := actual.policies[w.key()]
		switch {
		case !exists:
			d.Missing.SetPolicy(w)
		case !a.Equal(w):
			d.Policies = append(d.Policies, Change[Policy]{Actual: a, Wanted: w})
		}
	}
	for _, a := range actual.Policies() {
		if _, exists := wanted.policies[a.key()]; !exists {
			d.Extra.SetPolicy(a)
		}
	}
}

func diffExchanges(d *Difference, actual, wanted *Topology) {
	for _, w := range wanted.Exchanges() {
		a, exists := actual.Exchange(w.Name)
		switch {
		case !exists:
			d.Missing.SetExchange(w)
		case !a.Equal(w):
			d.Exchanges = append(d.Exchanges, Change[Exchange]{Actual: a, Wanted: w})
		}
	}
	for _, a := range actual.Exchanges() {
		if _, exists := wanted.Exchange(a.Name); !exists {
			d.Extra.SetExchange(a)
		}
	}
}

func diffQueues(d *Difference, actual, wanted *Topology) {
	for _, w := range wanted.Queues() {
		a, exists := actual.Queue(w.Name)
		switch {
		case !exists:
			d.Missing.SetQueue(w)
		case !a.Equal(w):
			d.Queues = append(d.Queues, Change[Queue]{Actual: a, Wanted: w})
		}
	}
	for _, a := range actual.Queues() {
		if _, exists := wanted.Queue(a.Name); !exists {
			d.Extra.SetQueue(a)
		}
	}
}
