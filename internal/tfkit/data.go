package tfkit

import (
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
)

// ProviderData is what the configured provider hands to every resource.
type ProviderData struct {
	// Client talks to the broker. It is nil while a part of the provider's
	// configuration is known only after apply.
	Client *broker.Client
	Names  *Names
}

// FromProvider takes the provider's data in a Configure method. It returns nil
// without an error before the provider is configured.
func FromProvider(data any, diags *diag.Diagnostics) *ProviderData {
	if data == nil {
		return nil
	}
	typed, ok := data.(*ProviderData)
	if !ok {
		diags.AddError("Unexpected Provider Data",
			fmt.Sprintf("The resource was configured with a %T. This is always an error in the provider.", data))
	}
	return typed
}

// Names keeps the operations of one process on objects of one name apart:
// Terraform runs them in parallel, and two addresses can ask for the same
// object. Names are free-form keys, such as "chain orders in vhost /".
type Names struct {
	mu    sync.Mutex
	locks map[string]*sync.Mutex
	owner map[string]string
	seen  map[string]bool
}

// NewNames returns an empty set of names.
func NewNames() *Names {
	return &Names{locks: map[string]*sync.Mutex{}, owner: map[string]string{}, seen: map[string]bool{}}
}

// Lock waits until nobody else works on the name; the caller has to call the
// returned function when it is done.
func (n *Names) Lock(name string) (unlock func()) {
	n.mu.Lock()
	lock, exists := n.locks[name]
	if !exists {
		lock = &sync.Mutex{}
		n.locks[name] = lock
	}
	n.mu.Unlock()
	lock.Lock()
	return lock.Unlock
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
