package redrive

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/parked"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// reader is a configuration or a plan.
type reader interface {
	GetAttribute(ctx context.Context, at path.Path, target any) diag.Diagnostics
}

// arguments are the inputs as they were configured.
type arguments struct {
	queue, vhost        types.String
	filter, destination types.Object
	max, perSecond      types.Int64
	dryRun, all         types.Bool
	headers             types.String
	strict              types.Bool
}

func (k kind) read(ctx context.Context, from reader, diags *diag.Diagnostics) arguments {
	var a arguments
	parts := map[string]any{
		"queue": &a.queue, "vhost": &a.vhost, "filter": &a.filter, "max_messages": &a.max, "max_messages_per_second": &a.perSecond,
		"dry_run": &a.dryRun,
	}
	if k.redrive {
		parts["destination"], parts["redrive_headers"] = &a.destination, &a.headers
		parts["strict"] = &a.strict
	} else {
		parts["all"] = &a.all
	}
	for name, target := range parts {
		diags.Append(from.GetAttribute(ctx, path.Root(name), target)...)
	}
	return a
}

func (a arguments) to() parked.Destination {
	parts := a.destination.Attributes()
	text := func(name string) string { return values.Part[types.String](parts, name).ValueString() }
	return parked.Destination{Queue: text("queue"), Exchange: text("exchange")}
}

// check reports what is wrong whatever the broker. What is not known yet is
// checked when the run begins.
func (k kind) check(a arguments, diags *diag.Diagnostics) {
	if parked.FilterIsKnown(a.filter) {
		filter := parked.FilterOf(a.filter, time.Now(), diags)
		if !k.redrive {
			checkAll(a, filter.Everything(time.Now()), diags)
		}
	}
	if !a.destination.IsNull() && !a.destination.IsUnknown() {
		checkDestination(a, diags)
	}
}

func checkAll(a arguments, unfiltered bool, diags *diag.Diagnostics) {
	switch {
	case a.all.IsUnknown():
	case unfiltered && !a.all.ValueBool():
		diags.AddAttributeError(path.Root("filter"), "No Filter",
			"The filter selects every message of the queue. Add a condition, or set all = true to delete them all.")
	case !unfiltered && a.all.ValueBool():
		diags.AddAttributeError(path.Root("all"), "Filter and All", "Set either a filter or all = true.")
	}
}

func checkDestination(a arguments, diags *diag.Diagnostics) {
	at := path.Root("destination")
	for _, part := range a.destination.Attributes() {
		if part.IsUnknown() {
			return
		}
	}
	to := a.to()
	switch {
	case (to.Queue == "") == (to.Exchange == ""):
		diags.AddAttributeError(at, "Invalid Destination", "Set exactly one of queue and exchange. Without destination each message goes "+
			"back to the queue that it failed in.")
	case to.Queue != "" && to.Queue == a.queue.ValueString():
		diags.AddAttributeError(at.AtName("queue"), "Invalid Destination", fmt.Sprintf("The messages are in queue %q already.", to.Queue))
	}
}

// run does the work. progress may be nil.
func (k kind) run(
	ctx context.Context, data *run.Data, a arguments, progress func(string), diags *diag.Diagnostics,
) (messages.Outcome, bool) {
	k.check(a, diags)
	if diags.HasError() || !run.KnowsBroker(data, diags) || !run.KnowsVHost(a.vhost, diags) {
		return messages.Outcome{}, false
	}
	queue, vhost := a.queue.ValueString(), a.vhost.ValueString()
	// Two runs at a time would hide messages from each other.
	unlock, ok := data.Names.Lock(ctx, parked.LockName(vhost, queue), diags)
	if !ok {
		return messages.Outcome{}, false
	}
	defer unlock()
	options := messages.RedriveOptions{
		Filter: parked.FilterOf(a.filter, time.Now(), diags),
		Max:    int(a.max.ValueInt64()), PerSecond: int(a.perSecond.ValueInt64()), DryRun: a.dryRun.ValueBool(),
		Headers: messages.AddedHeaders(a.headers.ValueString()), Strict: a.strict.ValueBool(),
	}
	if progress != nil {
		options.Progress = func(o messages.Outcome) { progress(k.text(o, options.DryRun)) }
	}
	var outcome messages.Outcome
	var err error
	if k.redrive {
		outcome, err = data.Client.Redrive(ctx, vhost, queue, parked.WorkQueues, a.to().From(queue), options)
	} else {
		outcome, err = data.Client.Discard(ctx, vhost, queue, parked.WorkQueues, options)
	}
	if err != nil {
		k.addError(diags, err, outcome, options.DryRun)
		return outcome, false
	}
	if outcome.WithoutOrigin > 0 {
		diags.AddAttributeWarning(path.Root("queue"), "Messages Without a Known Origin",
			fmt.Sprintf("%s of queue %q stay there: they do not tell in which queue they failed, or that queue is gone. Give a "+
				"destination to move them.", number(outcome.WithoutOrigin), queue))
	}
	if outcome.Changed > 0 {
		became := "moved without it; set strict = true to keep such messages where they are"
		if options.Strict {
			became = "stay there"
		}
		diags.AddAttributeWarning(path.Root("queue"), "Messages Not Moved Unchanged",
			fmt.Sprintf("%s of queue %q have a user_id of another user, a CC or BCC header, or sections of AMQP 1.0, which a redrive "+
				"loses. They %s.", number(outcome.Changed), queue, became))
	}
	if outcome.RefusedCount > 0 {
		diags.AddAttributeWarning(path.Root("queue"), "Messages Refused",
			fmt.Sprintf("%s of queue %q cannot be moved and stay there: %s.", number(outcome.RefusedCount), queue, refusals(outcome)))
	}
	return outcome, true
}

// namedRefusals is how many refused messages a warning names.
const namedRefusals = 5

// refusals names the first refused messages.
func refusals(o messages.Outcome) string {
	var parts []string
	for _, r := range o.Refused[:min(len(o.Refused), namedRefusals)] {
		name := fmt.Sprintf("position %d", r.Position)
		if r.ID != "" {
			name = fmt.Sprintf("message id %q at position %d", r.ID, r.Position)
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", name, r.Reason))
	}
	if more := o.RefusedCount - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, "; ")
}

// addError says what was done besides what went wrong.
func (k kind) addError(diags *diag.Diagnostics, err error, o messages.Outcome, dry bool) {
	title := "Messages Not " + map[bool]string{true: "Moved", false: "Discarded"}[k.redrive]
	rest := "None is lost: the others are where they were."
	if o.Done > 0 {
		title = "Run Broken Off"
		rest = "The others are where they were. Run it again for the rest."
	}
	switch {
	case o.Twice > 0 && k.redrive:
		rest += fmt.Sprintf(" RabbitMQ did not say of %s whether the destination has them as well.", number(o.Twice))
	case o.Twice > 0:
		rest += fmt.Sprintf(" RabbitMQ did not say of %s whether they are deleted.", number(o.Twice))
	}
	if o.RefusedCount > 0 {
		rest += fmt.Sprintf(" %s cannot be moved: %s.", number(o.RefusedCount), refusals(o))
	}
	var all diag.Diagnostics
	diagnostics.AddError(&all, title, err)
	for _, d := range all {
		diags.AddError(d.Summary(), d.Detail()+"\n\n"+k.text(o, dry)+". "+rest)
	}
}

// text tells how far a run has come.
func (k kind) text(o messages.Outcome, dry bool) string {
	text := fmt.Sprintf("%s %s, %d of %d looked at", number(o.Done), k.done, o.Seen, o.Total)
	if dry {
		text = fmt.Sprintf("%s would be %s, %d of %d looked at", number(o.Done), k.done, o.Seen, o.Total)
	}
	if o.WithoutOrigin > 0 {
		text += fmt.Sprintf(", %d without a known origin", o.WithoutOrigin)
	}
	if o.RefusedCount > 0 {
		text += fmt.Sprintf(", %d refused", o.RefusedCount)
	}
	return text
}

func number(n int) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}

// results are the computed attributes.
func (k kind) results(o messages.Outcome) map[string]attr.Value {
	results := map[string]attr.Value{
		"total": types.Int64Value(int64(o.Total)), "selected": types.Int64Value(int64(o.Selected)), k.done: types.Int64Value(int64(o.Done)),
		"ran_at": types.StringValue(time.Now().UTC().Format(time.RFC3339)),
	}
	if k.redrive {
		results["without_origin"] = types.Int64Value(int64(o.WithoutOrigin))
		results["changed"] = types.Int64Value(int64(o.Changed))
		results["refused"] = types.Int64Value(int64(o.RefusedCount))
	}
	return results
}
