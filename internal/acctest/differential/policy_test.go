package differential

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

const (
	policiesPerCase = 30
	queuesPerCase   = 16
	// policyTimeout is how long a broker may take to apply a policy to a queue.
	policyTimeout = 60 * time.Second
)

// TestPolicies compares Governing with the policy and the operator policy that
// every broker the environment names shows for a queue.
func TestPolicies(t *testing.T) {
	if !rabbit.Given() {
		t.Skipf("no broker to compare with: set %s", rabbit.EnvEndpoints)
	}
	seed := number(t, envSeed, 1)
	brokers, err := rabbit.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range brokers {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			for name, test := range map[string]func(*testing.T, *policyHost){
				"random, policies first": func(t *testing.T, h *policyHost) { comparePolicies(t, h, seed, true) },
				"random, queues first":   func(t *testing.T, h *policyHost) { comparePolicies(t, h, seed+1, false) },
				"patterns":               comparePatterns,
				"keys":                   compareKeys,
				"equal priority":         compareEqualPriority,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, &policyHost{host: newHost(t, b), topology: topology.New()})
				})
			}
		})
	}
}

// policyHost is a virtual host and what was made in it.
type policyHost struct {
	*host
	topology *topology.Topology
}

func (h *policyHost) path(p topology.Policy) string {
	kind := "policies"
	if p.Operator {
		kind = "operator-policies"
	}
	return "/api/" + kind + "/" + url.PathEscape(h.name) + "/" + url.PathEscape(p.Name)
}

func (h *policyHost) declare(t *testing.T, queues ...topology.Queue) {
	t.Helper()
	declared := topology.New()
	for _, q := range queues {
		declared.SetQueue(q)
	}
	h.topology.Add(declared)
	r, err := newReal(h.connection)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if err := r.declare(declared); err != nil {
		t.Fatal(err)
	}
}

func (h *policyHost) set(t *testing.T, policies ...topology.Policy) {
	t.Helper()
	for _, p := range policies {
		h.topology.SetPolicy(p)
		h.manage(t, http.MethodPut, h.path(p), map[string]any{
			"pattern": p.Pattern, "apply-to": p.ApplyTo, "priority": p.Priority, "definition": p.Definition,
		})
	}
}

func (h *policyHost) remove(t *testing.T, policies ...topology.Policy) {
	t.Helper()
	for _, p := range policies {
		h.topology.RemovePolicy(p)
		h.manage(t, http.MethodDelete, h.path(p), nil)
	}
}

// applied is what a broker shows of a queue.
type applied struct {
	Queue    string `json:"name"`
	Policy   string `json:"policy"`
	Operator string `json:"operator_policy"`
}

// policies returns the names of the policies that the broker applies to the
// queues, "" for none. Without statistics the list is taken from the queues
// themselves; any other answer can be seconds old.
func (h *policyHost) policies(t *testing.T) []applied {
	t.Helper()
	var queues []applied
	h.get(t, "?disable_stats=true&enable_queue_totals=true", &queues)
	if len(queues) != len(h.topology.Queues()) {
		t.Fatalf("the broker lists %d queues of %d", len(queues), len(h.topology.Queues()))
	}
	return queues
}

// operator returns the name of the operator policy that the broker shows for
// the queue, "" for none. Not every version has it in the list without
// statistics.
func (h *policyHost) operator(t *testing.T, queue string) string {
	t.Helper()
	var a applied
	h.get(t, "/"+url.PathEscape(queue), &a)
	return a.Operator
}

func (h *policyHost) get(t *testing.T, rest string, into any) {
	t.Helper()
	if err := json.Unmarshal(h.manage(t, http.MethodGet, "/api/queues/"+url.PathEscape(h.name)+rest, nil), into); err != nil {
		t.Fatal(err)
	}
}

// compare waits until the broker applies to every queue the policy that
// Governing says.
func (h *policyHost) compare(t *testing.T) {
	t.Helper()
	eventually(t, func() []string {
		var differences []string
		for _, a := range h.policies(t) {
			differences = append(differences, h.difference(a.Queue, a.Policy, false)...)
		}
		return differences
	})
}

// compareOperators is like compare for operator policies.
func (h *policyHost) compareOperators(t *testing.T) {
	t.Helper()
	eventually(t, func() []string {
		var differences []string
		for _, q := range h.topology.Queues() {
			differences = append(differences, h.difference(q.Name, h.operator(t, q.Name), true)...)
		}
		return differences
	})
}

// eventually fails the test with the differences that are still there after
// [policyTimeout].
func eventually(t *testing.T, differences func() []string) {
	t.Helper()
	deadline := time.Now().Add(policyTimeout)
	left := differences()
	for len(left) > 0 && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
		left = differences()
	}
	for _, difference := range left {
		t.Error(difference)
	}
}

// difference tells that the broker applies another policy than Governing says.
func (h *policyHost) difference(queue, name string, operator bool) []string {
	q, _ := h.topology.Queue(queue)
	policies := h.topology.Governing(q.Name, q.Type, operator)
	if isOneOf(name, policies) {
		return nil
	}
	kind := topology.Policy{Operator: operator}.Kind()
	return []string{fmt.Sprintf("%s queue %q has %s %q, Governing says %q", q.Type, q.Name, kind, name, policyLines(policies))}
}

// isOneOf says whether the broker chose one of the policies, or none of none.
func isOneOf(name string, policies []topology.Policy) bool {
	if len(policies) == 0 {
		return name == ""
	}
	return slices.ContainsFunc(policies, func(p topology.Policy) bool { return p.Name == name })
}

func policyLines(policies []topology.Policy) []string {
	var lines []string
	for _, p := range policies {
		lines = append(lines, p.Name+": "+p.Line())
	}
	return lines
}

// comparePolicies has many policies of different priorities, and one of them
// for each queue.
func comparePolicies(t *testing.T, h *policyHost, seed int64, policiesFirst bool) {
	t.Helper()
	r := newRandom(seed)
	queues, policies := r.queues(), r.policies(h.version)
	if policiesFirst {
		h.set(t, policies...)
	}
	h.declare(t, queues...)
	if !policiesFirst {
		h.set(t, policies...)
	}
	for _, q := range queues {
		for _, operator := range []bool{false, true} {
			if n := len(h.topology.Governing(q.Name, q.Type, operator)); n > 1 {
				t.Fatalf("%d policies of different priorities for %q", n, q.Name)
			}
		}
	}
	h.compare(t)
	h.compareOperators(t)
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
}

var (
	policyWords    = []string{"orders", "retry", "parking", "a", "ab", "17"}
	policyPatterns = []string{
		"", ".*", "^", "^a", "a$", "^orders", `^orders\.`, `^orders\.retry\.`, `^orders\.retry$`, `^orders\.17$`, `^a\.b$`,
		"orders.parking", `\.17$`,
		`^(?!orders\.).*`, `^(?!amq\.).*`, `^(?!.*parking)`, `(?<=orders)\.a`, `^orders\.(retry|parking)`, "^a|17$",
		`^[a-z]+\.[0-9]+$`, `^\w+\.\w+$`,
		"(?i)^ORDERS", "^ab?", `^a+b?\.`, "^orders-[0-9]+$", "(a)(b)?\\.", "^(?:retry|parking)", "never",
	}
)

// queues are classic and quorum queues whose names are made of few words.
func (r random) queues() []topology.Queue {
	var queues []topology.Queue
	for i := range queuesPerCase {
		name := pick(r, policyWords...)
		for range r.IntN(3) {
			name += "." + pick(r, policyWords...)
		}
		if slices.ContainsFunc(queues, func(q topology.Queue) bool { return q.Name == name }) {
			name += fmt.Sprintf("-%d", i)
		}
		queues = append(queues, queue(name, pick(r, topology.Classic, topology.Quorum), nil))
	}
	return queues
}

// policies are policies and operator policies with priorities that all differ.
func (r random) policies(v abilities.Version) []topology.Policy {
	applyTo := []string{topology.ApplyToAll, topology.ApplyToQueues, topology.ApplyToQueues, topology.ApplyToExchanges}
	if v.AtLeast("3.12.0") {
		applyTo = append(applyTo, topology.ApplyToClassicQueues, topology.ApplyToQuorumQueues, topology.ApplyToStreams)
	}
	var policies []topology.Policy
	for _, priority := range r.Perm(policiesPerCase) {
		p := topology.Policy{
			Name: fmt.Sprintf("p%d", priority), Operator: r.chance(30), Pattern: pick(r, policyPatterns...),
			ApplyTo: pick(r, applyTo...), Priority: int64(priority - policiesPerCase/2),
		}
		if p.Operator {
			p.ApplyTo = topology.ApplyToQueues
		}
		p.Definition = r.definition(p.Operator, v)
		policies = append(policies, p)
	}
	return policies
}

// definition draws keys that the version accepts.
func (r random) definition(operator bool, v abilities.Version) topology.Arguments {
	definition := topology.Arguments{}
	for len(definition) == 0 || r.chance(40) {
		key := pick(r, policyKeys...)
		if key.accepted(v) && (!operator || slices.Contains(operatorKeys, key.name)) {
			definition[key.name] = key.value
		}
	}
	return definition
}

// comparePatterns wants every pattern to match the names that it matches for
// the broker. A second policy of lower priority, set last, shows where the first
// does not apply.
func comparePatterns(t *testing.T, h *policyHost) {
	t.Helper()
	for _, name := range patternNames {
		h.declare(t, queue(name, topology.Classic, nil))
	}
	for i, pattern := range patterns {
		tried := lengthPolicy(fmt.Sprintf("tried %d", i), pattern, 1)
		others := lengthPolicy(fmt.Sprintf("others %d", i), "", 0)
		h.set(t, tried, others)
		h.compare(t)
		h.remove(t, tried, others)
	}
}

func lengthPolicy(name, pattern string, priority int64) topology.Policy {
	return topology.Policy{
		Name: name, Pattern: pattern, ApplyTo: topology.ApplyToQueues, Priority: priority,
		Definition: topology.Arguments{topology.KeyMaxLength: int64(1000)},
	}
}

var (
	patternNames = []string{"ab", "a.b", "a b", "a|b", "a$b", "b", "|", "é", "xyz", "A.B", "17", "orders.17", "orders.117", slowName}
	// Left out is what RabbitMQ and regexp2 read differently: bytes above 127,
	// [:alpha:] and "[" inside brackets, and what only PCRE knows.
	patterns = []string{
		"^|$", "^a|b$", `^a\|b$`, "^a$|b$", "^(?:a|x)", "^(?i)ab$", "(?i)^A", "^ab{1}$",
		"^abc*$", "^abc?$", "^ab+$", "^a b$", `^\x61b$`, `^a\.b\$`, `^a\$b$`,
		"^[]a]b$", "^[^]]+$", "^a$b", `^ab\z`, `\Aab`, "^(?x) a b $", "^é$", `^orders\.\d{2}$`,
		"^[0-9]+$", `^[a-z.]+$`, `^(a)\.?b\b`, `^(?!a).*b`, `(?<!1)17$`,
		`^(?>a+)b`, "^a.b$", `^([a-z]+\.?)+$`, `^(?!amq\.)([a-z]+\.?)+$`, `^(?:([a-z]+\.?)+!|.*)$`,
	}
)

// slowName makes some of the patterns backtrack until the broker gives up.
const slowName = "slow.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-1"

// compareKeys has a policy of one key at a time, and one of lower priority for
// the queues of a type that does not support the key.
func compareKeys(t *testing.T, h *policyHost) {
	t.Helper()
	for _, kind := range []topology.QueueType{topology.Classic, topology.Quorum, topology.Stream} {
		h.declare(t, queue(string(kind), kind, nil))
	}
	for _, key := range policyKeys {
		if !key.accepted(h.version) {
			continue
		}
		tried := topology.Policy{
			Name: key.name, ApplyTo: topology.ApplyToQueues, Priority: 1, Definition: topology.Arguments{key.name: key.value},
		}
		others := topology.Policy{
			Name: "without " + key.name, ApplyTo: topology.ApplyToQueues,
			Definition: topology.Arguments{topology.KeyMaxLengthBytes: int64(1 << 30)},
		}
		h.set(t, tried, others)
		h.compare(t)
		h.remove(t, tried, others)
	}
}

// policyKey is a key that brokers accept in policies, from one version on and
// up to before another.
type policyKey struct {
	name         string
	value        any
	from, before string
}

func (k policyKey) accepted(v abilities.Version) bool {
	return v.AtLeast(k.from) && (k.before == "" || !v.AtLeast(k.before))
}

// operatorKeys are those that operator policies of every version can have.
var operatorKeys = []string{
	topology.KeyMessageTTL, topology.KeyExpires, topology.KeyMaxLength, topology.KeyMaxLengthBytes, topology.KeyDeliveryLimit,
}

// policyKeys are all but those that classic queues support in some versions
// only: queue-leader-locator (from 4.0 on) and max-in-memory-* (3.10).
var policyKeys = []policyKey{
	{topology.KeyMessageTTL, int64(60_000), "3.10.0", ""},
	{topology.KeyExpires, int64(3_600_000), "3.10.0", ""},
	{topology.KeyMaxLength, int64(1000), "3.10.0", ""},
	{topology.KeyMaxLengthBytes, int64(1 << 20), "3.10.0", ""},
	{topology.KeyDeliveryLimit, int64(5), "3.10.0", ""},
	{topology.KeyDeadLetterExchange, "amq.fanout", "3.10.0", ""},
	{topology.KeyDeadLetterRoutingKey, "key", "3.10.0", ""},
	{topology.KeyDeadLetterStrategy, "at-most-once", "3.10.0", ""},
	{topology.KeyOverflow, "reject-publish", "3.10.0", ""},
	{"max-age", "1h", "3.10.0", ""},
	{"stream-max-segment-size-bytes", int64(1 << 20), "3.10.0", ""},
	{"initial-cluster-size", int64(1), "3.10.0", ""},
	{"queue-mode", "lazy", "3.10.0", ""},
	{"queue-version", int64(2), "3.10.0", ""},
	{"queue-master-locator", "min-masters", "3.10.0", "4.3.0"},
	{"ha-mode", "all", "3.10.0", "4.0.0"},
	{"target-group-size", int64(3), "3.13.0", ""},
	{"consumer-timeout", int64(60_000), "3.13.0", ""},
	{"delayed-retry-type", "disabled", "4.3.1", ""},
}

// compareEqualPriority wants the broker's choice among policies of the same
// priority to be one of those that Governing returns.
func compareEqualPriority(t *testing.T, h *policyHost) {
	t.Helper()
	h.declare(t, queue("q", topology.Classic, nil))
	h.set(t, lengthPolicy("lower", "", 0), lengthPolicy("b", "", 1), lengthPolicy("a", "", 1), lengthPolicy("other", "^other", 2))
	if chosen := h.topology.Governing("q", topology.Classic, false); len(chosen) != 2 {
		t.Errorf("Governing says %q", policyLines(chosen))
	}
	h.compare(t)
}
