package retrychain_test

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// badInputs are configurations that no broker can make right, with the words
// that the error must have. The first names the attribute.
func badInputs() map[string]struct{ attributes, want string } {
	const delays = "delays = [\"1s\"]\n"
	tiers := strings.Repeat(`"1s", `, 51)
	return map[string]struct{ attributes, want string }{
		"negative delay":      {`delays = ["-5s"]`, `delays\[0\].*"-5s" is negative`},
		"unparsable delay":    {`delays = ["5s", "soon"]`, `delays\[1\].*"soon" is not a duration`},
		"delay without unit":  {`delays = ["5"]`, `delays\[0\].*"5" is not a duration`},
		"part of millisecond": {`delays = ["1500us"]`, `delays\[0\].*whole number of milliseconds`},
		"over ten years":      {`delays = ["87601h"]`, `delays\[0\].*longer than ten years`},
		"too many delays":     {"delays = [" + tiers + "]", `delays.*at most 50 elements`},
		"short timeout":       {delays + `work_queue = { consumer_timeout = "59s" }`, `consumer_timeout.*the minimum is "1m"`},
		"unknown strategy":    {delays + `strategy = "magic"`, `strategy.*"headers" "routing_key"`},
		"unknown queue type":  {delays + `queue_type = "stream"`, `queue_type`},
		"at-least-once on classic": {
			delays + "queue_type = \"classic\"\ndead_letter_strategy = \"at-least-once\"",
			`dead_letter_strategy.*At-Least-Once Needs Quorum Queues`,
		},
		"existing work queue":    {delays + `work_queue = { ownership = "application", max_length = 5 }`, `work_queue.*Queue Belongs to Others`},
		"existing parking queue": {delays + `parking_queue = { ownership = "application", message_ttl = "1s" }`, `parking_queue.*Queue Belongs to Others`},
		"nothing to inherit":     {delays + `policy = { inherit = true }`, `policy.*Nothing to Inherit`},
		"two queues of one name": {delays + `parking_queue = { name = "orders" }`, `parking_queue.*Two Queues of One Name`},
		"queue named as a tier":  {delays + `work_queue = { name = "orders.retry.1s" }`, `work_queue.*Two Queues of One Name`},
		"reserved queue name":    {delays + `work_queue = { name = "amq.work" }`, `work_queue.*Reserved Name`},
		"limit on classic": {
			delays + "queue_type = \"classic\"\nwork_queue = { delivery_limit = 5 }",
			`work_queue.*Delivery Limit Needs Quorum Queues`,
		},
		"drop-head with at-least-once": {delays + `work_queue = { overflow = "drop-head", max_length = 5 }`, `work_queue.*At-Least-Once Needs reject-publish`},
		"reject-publish on classic": {
			delays + "queue_type = \"classic\"\nwork_queue = { overflow = \"reject-publish\", max_length = 5 }",
			`work_queue.*Classic reject-publish Loses Retries`,
		},
		"argument of the chain": {delays + `work_queue = { arguments = jsonencode({ "x-message-ttl" = 5 }) }`, `work_queue.*Argument Set Elsewhere`},
		"expiring queue":        {delays + `work_queue = { arguments = jsonencode({ "x-expires" = 5 }) }`, `work_queue.*x-expires Would Lose Messages`},
		"arguments not JSON":    {delays + `work_queue = { arguments = "x=5" }`, `x=5.*JSON`},
		"null header":           {delays + `work_queue = { bindings = [{ exchange = "amq.headers", arguments = jsonencode({ a = null }) }] }`, `work_queue.*null`},
		"wrong x-match": {
			delays + `work_queue = { bindings = [{ exchange = "amq.headers", arguments = jsonencode({ "x-match" = "some" }) }] }`,
			`work_queue.*Invalid x-match`,
		},
		"default exchange": {delays + `work_queue = { bindings = [{ exchange = "" }] }`, `work_queue.*Default Exchange Cannot Be Bound`},
		"own exchange":     {delays + `work_queue = { bindings = [{ exchange = "orders.retry" }] }`, `work_queue.*Exchange of the Chain`},
		"binding twice": {
			delays + `work_queue = { bindings = [{ exchange = "amq.topic" }, { exchange = "amq.topic" }] }`,
			`work_queue.*Binding Given Twice`,
		},
		"unknown deletion policy": {delays + `deletion_policy = "maybe"`, `deletion_policy`},
	}
}

// TestAccBadInput: what no broker can make right is an error of the plan, on
// the attribute. The provider's endpoint is one where nothing listens.
func TestAccBadInput(t *testing.T) {
	acctest.Brokers(t) // for its skip
	nowhere := &rabbit.Broker{Endpoint: "http://127.0.0.1:1", Username: "guest", Password: "guest", AMQP: "amqp://127.0.0.1:1"}
	for name, test := range badInputs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			planFails(t, acctest.Config(nowhere, "resource \"rabbitmq_retry_chain\" \"orders\" {\nname = \"orders\"\n%s\n}\n", test.attributes), test.want)
		})
	}
	for name, test := range map[string]struct{ name, want string }{
		"too long":         {strings.Repeat("n", 245), "name.*Name Too Long"},
		"reserved":         {"amq.orders", "name.*Reserved Name"},
		"empty":            {"", "name.*Empty Name"},
		"carriage return":  {"or\rders", "name.*Line Break in Name"},
		"line feed":        {"or\nders", "name.*Line Break in Name"},
		"over 255 by tier": {strings.Repeat("ü", 122) + "abc", "name.*Name Too Long"},
	} {
		t.Run("name "+name, func(t *testing.T) {
			t.Parallel()
			planFails(t, acctest.Config(nowhere, "resource \"rabbitmq_retry_chain\" \"orders\" {\nname = %q\ndelays = [\"1m30s\"]\n}\n", test.name), test.want)
		})
	}
}

// planFails expects a plan to fail with words in this order.
func planFails(t *testing.T, config, want string) {
	t.Helper()
	w := acctest.Terraform(t, config)
	output := acctest.RunError(t, w, "plan")
	flat := strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(output)), " ")
	// The attribute stands below the title: allow both orders.
	attribute, words, found := strings.Cut(want, ".*")
	if !regexp.MustCompile(attribute).MatchString(flat) && !strings.Contains(flat, strings.Split(attribute, `\`)[0]) {
		t.Errorf("the error does not name %s:\n%s", attribute, output)
	}
	if found && !regexp.MustCompile(words).MatchString(flat) {
		t.Errorf("the error lacks %q:\n%s", words, output)
	}
}

// TestAccBadInputForBroker: what this broker cannot do is an error of the plan
// as well, and creates nothing.
func TestAccBadInputForBroker(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost, api := acctest.VHost(t, b), acctest.API(t, b)
		if !acctest.Modern(b) {
			old := variant{"headers", "quorum", "at-least-once"}
			planFails(t, old.chainConfig(b, vhost, `["1s"]`, ""), `strategy.*needs RabbitMQ 3.13.3 or later.*runs 3.10.8`)
			old.strategy = "routing_key"
			for attribute, value := range map[string]string{"delivery_limit": "5", "message_ttl": `"1h"`} {
				planFails(t, old.chainConfig(b, vhost, `["1s"]`, fmt.Sprintf("work_queue = { %s = %s }", attribute, value)), `work_queue.*Would Lose Messages`)
			}
		}
		resp, err := api.DeclareQueue(vhost, "orders", rabbithole.QueueSettings{Durable: true})
		acctest.Do(t, resp, err)
		planFails(t, settings{}.config(b, vhost), `name.*Object Already Exists.*queue "orders".*terraform import.*set work_queue.ownership or parking_queue.ownership = "application"`)
		if n := queues(t, b, vhost); n != 1 {
			t.Errorf("%d queues, expected only the one that was there", n)
		}
		w := acctest.Terraform(t, settings{name: "other", more: `work_queue = { bindings = [{ exchange = "missing" }] }`}.config(b, vhost))
		expectText(t, acctest.Run(t, w, "plan"), "Warning: Source Exchange Not Found", "work_queue.bindings[0].exchange") // another resource may create it in the same run
		expectText(t, acctest.RunError(t, w, "apply", "-auto-approve"), "Source Exchange Not Found", `Exchange "missing" does not exist`)
	})
}

// TestAccPermissions: the missing permission is named, at plan time where the
// broker lets the user see its permissions, and else at apply.
func TestAccPermissions(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost, api := acctest.VHost(t, b), acctest.API(t, b)
		for tag, command := range map[string][]string{"administrator": {"plan"}, "management": {"apply", "-auto-approve"}} {
			user := "limited-" + tag + "-" + vhost
			resp, err := api.PutUser(user, rabbithole.UserSettings{Name: user, Password: "s3cret-word", Tags: rabbithole.UserTags{tag}})
			acctest.Do(t, resp, err)
			t.Cleanup(func() {
				resp, err := api.DeleteUser(user)
				acctest.Do(t, resp, err)
			})
			resp, err = api.UpdatePermissionsIn(vhost, user, rabbithole.Permissions{Configure: "^other", Write: ".*", Read: ".*"})
			acctest.Do(t, resp, err)
			limited := *b
			limited.Username, limited.Password = user, "s3cret-word"
			w := acctest.Terraform(t, settings{}.config(&limited, vhost))
			output := acctest.RunError(t, w, command...)
			expectText(t, output, "Permission Missing", "configure", user, "orders")
			if strings.Contains(output, "s3cret-word") {
				t.Errorf("the output of %v shows the password", command)
			}
		}
	})
}

// TestAccQuietPlans: omitted, empty and partial nested attributes plan quietly,
// and a key that is removed returns to its default.
func TestAccQuietPlans(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		s := newSession(t, b, acctest.VHost(t, b), defaultVariant(b, "quorum"), nil)
		byDefault := s.config
		topic, fanout := map[string]any{"exchange": "amq.topic", "routing_key": "a.#"}, map[string]any{"exchange": "amq.fanout"}
		for _, more := range []map[string]any{
			nil,
			{"work_queue": map[string]any{}},
			{"parking_queue": map[string]any{}},
			{"work_queue": map[string]any{"name": "orders"}},
			{"parking_queue": map[string]any{"name": "orders.parking"}},
			{"work_queue": map[string]any{"bindings": []any{topic, fanout}}},
			{"work_queue": map[string]any{"bindings": []any{fanout}}},
			nil,
			{"timeouts": map[string]any{"create": "1m"}},
		} {
			s.config = maps.Clone(byDefault)
			maps.Copy(s.config, more)
			s.apply()
			s.expectPlan(s.plan())
		}
	})
}
