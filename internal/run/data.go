// Package run holds what the resources, data sources and actions of one process
// share: the client, the names that they lock and claim, and their time limits.
package run

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
)

// Data is what the configured provider hands to every resource.
type Data struct {
	// Client talks to the broker. It is nil while a part of the provider's
	// configuration is known only after apply.
	Client *broker.Client
	Names  *Names
	// DefaultVHost is the provider's vhost: unknown while that is, null if it has
	// none. [Data.VHost] applies it.
	DefaultVHost types.String
}

// VHost returns the virtual host of an object: its own, else the provider's
// default, which can be unknown, else "/".
func (d *Data) VHost(own types.String) types.String {
	switch {
	case !own.IsNull():
		return own
	case d == nil || d.DefaultVHost.IsNull():
		return types.StringValue("/")
	default:
		return d.DefaultVHost
	}
}

// PlannedVHost is [Data.VHost] for an object that is in the virtual host before, null if
// there is none yet. While the provider's default is unknown, the object stays where it is:
// a replacement that turned out to be none would have removed it.
func (d *Data) PlannedVHost(own, before types.String) types.String {
	vhost := d.VHost(own)
	if own.IsNull() && vhost.IsUnknown() && !before.IsNull() {
		return before
	}
	return vhost
}

// FromProvider takes the provider's data in a Configure method. It returns nil
// without an error before the provider is configured.
func FromProvider(data any, diags *diag.Diagnostics) *Data {
	if data == nil {
		return nil
	}
	typed, ok := data.(*Data)
	if !ok {
		diags.AddError("Unexpected Provider Data",
			fmt.Sprintf("The resource was configured with a %T. This is always an error in the provider.", data))
	}
	return typed
}

// locks hold what is locked by name.
type locks struct {
	mu    sync.Mutex
	turns map[string]*turn
}

// turn is a lock: who can send to busy has it. It is kept while anybody uses it.
type turn struct {
	busy  chan struct{}
	users int
}

func (l *locks) lock(ctx context.Context, key string) (unlock func(), err error) {
	l.mu.Lock()
	t, exists := l.turns[key]
	if !exists {
		t = &turn{busy: make(chan struct{}, 1)}
		l.turns[key] = t
	}
	t.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		t.users--
		if t.users == 0 {
			delete(l.turns, key)
		}
	}
	select {
	case t.busy <- struct{}{}:
		return func() {
			<-t.busy
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// Names keeps the operations of one provider on objects of one name apart:
// Terraform runs them in parallel, and two addresses can ask for the same
// object. Names are free-form keys, such as "chain orders in vhost /".
type Names struct {
	locks locks
	mu    sync.Mutex
	owner map[string]string
	seen  map[string]bool
	// planned are objects that a resource of this run is to have.
	planned map[string]bool
}

// NewNames returns an empty set of names.
func NewNames() *Names {
	return &Names{locks: locks{turns: map[string]*turn{}}, owner: map[string]string{}, seen: map[string]bool{}, planned: map[string]bool{}}
}

// Lock waits until no other operation of this provider works on the name; the caller
// calls unlock when it is done. If ctx ends first, Lock adds an error and ok is false.
// Terraform runs each configuration of a provider in a process of its own, so operations
// of two of them are kept apart as those of two runs are: by what the broker answers.
func (n *Names) Lock(ctx context.Context, name string, diags *diag.Diagnostics) (unlock func(), ok bool) {
	unlock, err := n.locks.lock(ctx, name)
	if err != nil {
		diagnostics.AddError(diags, "Stopped While Waiting", fmt.Errorf("stopped while waiting for another operation of this run on %s: %w",
			name, err))
		return nil, false
	}
	return unlock, true
}

// Claim takes the names for an owner. When another one, or an earlier claim of
// the same one, has any of them, it takes none and returns that name and who
// has it.
func (n *Names) Claim(owner string, names []string) (taken, by string, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range names {
		if by, exists := n.owner[name]; exists {
			return name, by, false
		}
	}
	for _, name := range names {
		n.owner[name] = owner
	}
	return "", "", true
}

// Claimed says whether any of the names has an owner.
func (n *Names) Claimed(names []string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(names, func(name string) bool { return n.owner[name] != "" })
}

// Release gives up all names of the owner.
func (n *Names) Release(owner string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, by := range n.owner {
		if by == owner {
			delete(n.owner, name)
		}
	}
}

// MarkSeen notes that a resource of this state has the name.
func (n *Names) MarkSeen(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen[name] = true
}

// Seen says whether a resource of this state was read under the name by this
// process.
func (n *Names) Seen(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen[name]
}

// AnySeen says whether any resource was read by this process. A process that
// applies a plan reads none.
func (n *Names) AnySeen() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.seen) > 0
}

// MarkPlanned notes objects that the plan of a resource is to have, by their
// [ObjectNames].
func (n *Names) MarkPlanned(names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range names {
		n.planned[name] = true
	}
}

// Planned says whether a resource that this process has planned is to have the
// object.
func (n *Names) Planned(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.planned[name]
}

// KnowsBroker says whether there is a client, and adds an error if not: the
// provider's configuration is not known then.
func KnowsBroker(data *Data, diags *diag.Diagnostics) bool {
	if data != nil && data.Client != nil {
		return true
	}
	diags.AddError("Broker Not Known",
		"A part of the provider's configuration is known only after apply, and so no broker can be asked or changed. Apply what it "+
			"comes from first, with -target, or write the value into the provider block.")
	return false
}

// KnowsVHost says whether the virtual host is known, and adds an error if not: it is
// the provider's default then.
func KnowsVHost(vhost types.String, diags *diag.Diagnostics) bool {
	if !vhost.IsUnknown() {
		return true
	}
	diags.AddAttributeError(path.Root("vhost"), "Virtual Host Not Known",
		"The provider's vhost is known only after apply. Set vhost here, apply what the provider's vhost comes from first with -target, "+
			"or write the value into the provider block.")
	return false
}
