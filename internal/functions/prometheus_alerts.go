package functions

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/alerts"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

type prometheusAlerts struct{}

// alertChain is what alerts depend on of a chain.
type alertChain struct {
	Name               string `tfsdk:"name"`
	VHost              string `tfsdk:"vhost"`
	Strategy           string `tfsdk:"strategy"`
	QueueType          string `tfsdk:"queue_type"`
	DeadLetterStrategy string `tfsdk:"dead_letter_strategy"`
	WorkQueue          struct {
		Name string `tfsdk:"name"`
	} `tfsdk:"work_queue"`
	ParkingQueue struct {
		Name      string `tfsdk:"name"`
		Ownership string `tfsdk:"ownership"`
	} `tfsdk:"parking_queue"`
	Delays []string `tfsdk:"delays"`
	Tiers  []string `tfsdk:"tiers"`
}

var alertChainType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"name": types.StringType, "vhost": types.StringType, "strategy": types.StringType, "queue_type": types.StringType,
	"dead_letter_strategy": types.StringType,
	"work_queue":           types.ObjectType{AttrTypes: map[string]attr.Type{"name": types.StringType}},
	"parking_queue":        types.ObjectType{AttrTypes: map[string]attr.Type{"name": types.StringType, "ownership": types.StringType}},
	"delays":               types.ListType{ElemType: types.StringType},
	"tiers":                types.ListType{ElemType: types.StringType},
}}

func (prometheusAlerts) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "prometheus_alerts"
}

func (prometheusAlerts) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary:             "Prometheus alerting rules for retry chains.",
		MarkdownDescription: prometheusAlertsDescription,
		Parameters: []function.Parameter{function.ListParameter{
			Name: "chains", ElementType: alertChainType,
			MarkdownDescription: "The resources `rabbitmq_retry_chain`, such as `[rabbitmq_retry_chain.orders]` or " +
				"`values(rabbitmq_retry_chain.all)`. Their order does not matter.",
		}},
		VariadicParameter: function.MapParameter{
			Name: "options", ElementType: types.StringType,
			MarkdownDescription: "At most one map with options, which are described above.",
		},
		Return: function.StringReturn{},
	}
}

const prometheusAlertsDescription = "Returns a rule file for Prometheus, in YAML, with one group. Write it where Prometheus looks for " +
	"rules, for example with `terraform output -raw`.\n\n" +
	"| alert | when |\n|---|---|\n" +
	"| `RabbitMQParkingNotEmpty` | a parking queue holds messages |\n" +
	"| `RabbitMQParkingGrowing` | a parking queue has been growing for the time `growing` |\n" +
	"| `RabbitMQParkingNotEmptied` | a parking queue has not been empty for the time `age` |\n" +
	"| `RabbitMQParkingMessageOld` | the oldest message of a parking queue was published longer ago than `age`. Only for parking queues " +
	"that are classic or belong to others: RabbitMQ exports no age for quorum queues, and for classic queues only that of messages whose " +
	"publisher sets the property `timestamp` |\n" +
	"| `RabbitMQRetryTierStuck` | a tier holds messages, and for its delay and `slack` there were at no scrape fewer than at the one " +
	"before |\n" +
	"| `RabbitMQDeadLettersBlocked` | a work queue or tier with `at-least-once` holds dead letters that their target does not take " +
	"(messages above ready and unacknowledged), and for the time `blocked` they were at no scrape fewer than at the one before. Not for " +
	"the work queue of strategy `delayed_retry`, which holds back messages itself |\n\n" +
	"A parking queue that several of the chains share has its alerts once. Every alert has the labels `vhost`, `queue` and `severity`. " +
	"The metrics come from the plugin `rabbitmq_prometheus`, per queue: from the path `/metrics/detailed` with the families " +
	"`queue_coarse_metrics` and `queue_metrics`, or from `/metrics/per-object`. The total at `/metrics` has no queues.\n\n" +
	"RabbitMQ counts no messages that leave a tier, so `RabbitMQRetryTierStuck` looks at the number of messages in it. Failures that " +
	"come in so evenly that as many messages enter a tier as leave it between any two scrapes look as if it were stuck.\n\n" +
	"Options, all of them strings:\n\n" +
	"- `endpoint` `\"detailed\"` or `\"per-object\"`, the path that Prometheus scrapes. Default: `\"detailed\"`.\n" +
	"- `matchers` Further label matchers, such as `job=\"rabbitmq\"`. Default: none.\n" +
	"- `severity` The label `severity` of all alerts. Default: `\"warning\"`.\n" +
	"- `growing` Default: `\"15m\"`.\n" +
	"- `blocked` Default: `\"5m\"`.\n" +
	"- `slack` Default: `\"5m\"`.\n" +
	"- `age` Default: `\"24h\"`.\n" +
	"- `window` In what time changes are looked for: at least twice the scrape interval. Default: `\"5m\"`.\n\n" +
	"RabbitMQ renews the metrics of a queue every five seconds. Times of less than half a minute lead to false alarms."

func (prometheusAlerts) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var list types.List
	var options []types.Map
	resp.Error = req.Arguments.Get(ctx, &list, &options)
	if resp.Error != nil {
		return
	}
	if !known(ctx, list, options) {
		resp.Error = resp.Result.Set(ctx, types.StringUnknown())
		return
	}
	var a arguments
	chains := a.alertChains(ctx, list)
	o := a.alertOptions(ctx, options)
	if a.err != nil {
		resp.Error = a.err
		return
	}
	resp.Error = resp.Result.Set(ctx, alerts.Render(chains, o))
}

// known says whether nothing in the arguments is unknown. OpenTofu calls a
// function with such arguments, Terraform does not.
func known(ctx context.Context, list types.List, options []types.Map) bool {
	values := []attr.Value{list}
	for _, o := range options {
		values = append(values, o)
	}
	for _, v := range values {
		if value, err := v.ToTerraformValue(ctx); err != nil || !value.IsFullyKnown() {
			return false
		}
	}
	return true
}

func (a *arguments) alertChains(ctx context.Context, list types.List) []alerts.Chain {
	var given []alertChain
	if diags := list.ElementsAs(ctx, &given, false); diags.HasError() {
		a.refuse(0, "a chain needs all its attributes, and none of them null: %s", diags[0].Detail())
		return nil
	}
	chains := make([]alerts.Chain, len(given))
	for i := range given {
		g := &given[i]
		chains[i] = alerts.Chain{
			Name: g.Name, VHost: g.VHost, Parking: g.ParkingQueue.Name, Work: g.WorkQueue.Name,
			Timestamps:  g.ParkingQueue.Ownership == attribute.Application || g.QueueType == string(topology.Classic),
			HoldsBack:   holdsBack(g.Strategy),
			AtLeastOnce: g.DeadLetterStrategy == string(retry.AtLeastOnce),
		}
		if len(g.Tiers) > len(g.Delays) {
			a.refuse(0, "chain %q: %d tiers, but %d delays", g.Name, len(g.Tiers), len(g.Delays))
			continue
		}
		for j, queue := range g.Tiers {
			d, err := retry.ParseDuration(g.Delays[j])
			if err != nil {
				a.refuse(0, "chain %q: %s", g.Name, err)
			}
			chains[i].Tiers = append(chains[i].Tiers, alerts.Tier{Queue: queue, Delay: d})
		}
	}
	return chains
}

func (a *arguments) alertOptions(ctx context.Context, given []types.Map) alerts.Options {
	o := alerts.Defaults()
	if len(given) > 1 {
		a.refuse(2, "there is at most one map with options")
	}
	if len(given) == 0 {
		return o
	}
	var values map[string]string
	if diags := given[0].ElementsAs(ctx, &values, false); diags.HasError() {
		a.refuse(1, "an option must not be null")
		return o
	}
	durations := map[string]*time.Duration{
		"growing": &o.Growing, "blocked": &o.Blocked, "slack": &o.Slack,
		"age": &o.Age, "window": &o.Window,
	}
	texts := map[string]func(string){
		"endpoint": func(text string) { o.Prefix = a.endpoint(text) },
		"matchers": func(text string) { o.Matchers = a.matchers(text) },
		"severity": func(text string) { o.Severity = text },
	}
	for name, text := range values {
		if set, ok := texts[name]; ok {
			set(text)
		} else if d, ok := durations[name]; ok {
			*d = a.positive(name, text)
		} else {
			a.refuse(1, "there is no option %q, only %s", name, strings.Join(sortedKeys(durations, texts), ", "))
		}
	}
	return o
}

// sortedKeys returns the names of all options.
func sortedKeys(durations map[string]*time.Duration, texts map[string]func(string)) []string {
	var names []string
	for name := range durations {
		names = append(names, name)
	}
	for name := range texts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (a *arguments) positive(name, text string) time.Duration {
	d, err := retry.ParseDuration(text)
	switch {
	case err != nil:
		a.refuse(1, "%s: %s", name, err)
	case d == 0:
		a.refuse(1, "%s: it has to be longer than 0", name)
	}
	return d
}

func (a *arguments) endpoint(text string) string {
	switch text {
	case "detailed":
		return alerts.Detailed
	case "per-object":
		return alerts.PerObject
	default:
		a.refuse(1, "endpoint: %q is neither \"detailed\" nor \"per-object\"", text)
		return ""
	}
}

// matcherList is what PromQL takes between braces.
var matcherList = regexp.MustCompile(`^\s*[a-zA-Z_]\w*\s*(=|!=|=~|!~)\s*"(\\.|[^"\\\n])*"` +
	`(\s*,\s*[a-zA-Z_]\w*\s*(=|!=|=~|!~)\s*"(\\.|[^"\\\n])*")*\s*$`)

func (a *arguments) matchers(text string) string {
	if text != "" && !matcherList.MatchString(text) {
		a.refuse(1, "matchers: %q is no list of label matchers such as job=\"rabbitmq\", cluster!=\"test\"", text)
	}
	return strings.TrimSpace(text)
}

// holdsBack says whether the work queue of a chain of that strategy holds messages back.
func holdsBack(strategy string) bool {
	d, _ := retry.DesignOf(retry.Strategy(strategy))
	return d.HoldsBack()
}
