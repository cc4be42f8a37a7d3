package retrychain

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/tfkit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// ValidateConfig reports what is wrong whatever the broker; warnings are left
// to the plan.
func (r *chainResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var config model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	config.applyDefaults()
	config = completeInputs(config, &facts{})
	if config.isKnown(ctx) {
		tfkit.AddProblems(&resp.Diagnostics, config.chain().Problems(), false)
	}
}

// ModifyPlan completes the plan and checks whether it can be carried out.
func (r *chainResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return // a destroy
	}
	var config, plan model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	prior := priorOf(ctx, req, plan, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	// Terraform offers the prior value for what the configuration leaves out;
	// a default must not depend on it.
	plan.DeadLetterStrategy, plan.WorkQueue, plan.ParkingQueue = config.DeadLetterStrategy, config.WorkQueue, config.ParkingQueue

	f := r.planFacts(ctx, req, prior, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	planned := complete(ctx, plan, prior, f)
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &planned)...)
	if resp.Diagnostics.HasError() || !planned.isKnown(ctx) {
		return
	}
	changes := prior == nil || !resp.Plan.Raw.Equal(req.State.Raw)
	c := planned.chain()
	tfkit.AddProblems(&resp.Diagnostics, c.Problems(), changes)
	if f != nil && changes {
		tfkit.AddProblems(&resp.Diagnostics, c.BrokerProblems(f.Version, f.Features), true)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	switch {
	case prior == nil:
		r.checkNew(ctx, req, planned, c, f, &resp.Diagnostics)
	case changes:
		checkUpdate(*prior, planned, &resp.Diagnostics)
	}
}

// priorOf returns the state that the plan changes in place. It is nil for a
// new chain and for one that is replaced because its name or virtual host
// changes.
func priorOf(ctx context.Context, req resource.ModifyPlanRequest, plan model, diags *diag.Diagnostics) *model {
	if req.State.Raw.IsNull() {
		return nil
	}
	var prior model
	diags.Append(req.State.Get(ctx, &prior)...)
	if !plan.Name.Equal(prior.Name) || !plan.VHost.Equal(prior.VHost) {
		return nil
	}
	return &prior
}

// planFacts returns what the plan may rely on: for an existing chain what the
// last refresh wrote down, for a new one what the broker says now. It returns
// nil when the broker is known only after apply.
func (r *chainResource) planFacts(ctx context.Context, req resource.ModifyPlanRequest, prior *model, diags *diag.Diagnostics) *facts {
	if prior != nil {
		if f := readFacts(ctx, req.Private, diags); f != nil {
			return f
		}
	}
	if r.data == nil || r.data.Client == nil {
		return nil
	}
	info, err := r.data.Client.Info(ctx)
	if err != nil {
		tfkit.AddError(diags, "Broker Not Reached", err)
		return nil
	}
	f := factsOf(info)
	return &f
}

// checkNew looks for what would make a create fail. It is a courtesy: the
// create itself looks again, and its answer counts.
func (r *chainResource) checkNew(ctx context.Context, req resource.ModifyPlanRequest, planned model, c retry.Chain, f *facts, diags *diag.Diagnostics) {
	if f == nil || r.data == nil || r.data.Client == nil {
		return
	}
	vhost, wanted := planned.VHost.ValueString(), c.Topology(f.Features)
	var conflicts []string
	err := r.data.Client.View(ctx, vhost, func(in *topology.Topology) { conflicts = findConflicts(c, wanted, in) })
	if err != nil {
		addVHostError(diags, err)
		return
	}
	r.checkPermissions(ctx, vhost, wanted, diags)
	replaced := readFacts(ctx, req.Private, diags) != nil || r.data.Names.Seen(planned.ID.ValueString())
	if len(conflicts) > 0 && !replaced {
		r.addConflict(planned, c, conflicts, diags)
	}
}

// addConflict refuses a plan whose objects exist already. It only warns when
// they look like this very chain and nothing was read in this process: then the
// process may be the one that applies a replacement with create_before_destroy.
// Terraform plans it once more after it has set the old chain aside, and puts
// that back only if the create fails, not if this plan does.
func (r *chainResource) addConflict(planned model, c retry.Chain, conflicts []string, diags *diag.Diagnostics) {
	text := conflictText(planned, conflicts)
	own := slices.Contains(conflicts, fmt.Sprintf("%s %q", topology.KindExchange, c.FirstExchange()))
	if own && !r.data.Names.AnySeen() {
		diags.AddAttributeWarning(path.Root("name"), "Chain Already Exists", "The apply will fail, unless it removes the old chain first. "+text)
		return
	}
	diags.AddAttributeError(path.Root("name"), "Object Already Exists", text)
}

func (r *chainResource) checkPermissions(ctx context.Context, vhost string, wanted *topology.Topology, diags *diag.Diagnostics) {
	missing, err := r.data.Client.MissingPermissions(ctx, vhost, wanted)
	if err != nil {
		tfkit.AddError(diags, "Permissions Not Read", err)
		return
	}
	if len(missing) > 0 {
		diags.AddError("Permission Missing",
			fmt.Sprintf("User %q lacks permissions in virtual host %q that this chain needs:\n\n  %s\n\nGrant them with rabbitmqctl set_permissions, "+
				"or configure the provider with another user.", r.data.Client.Username(), vhost, strings.Join(missing, "\n  ")))
	}
}

// checkUpdate refuses what this version cannot do without risk for messages.
func checkUpdate(prior, planned model, diags *diag.Diagnostics) {
	old, c, before := prior.chain(), planned.chain(), prior.lines()
	changed := immutableChanges(old, c)
	if !planned.Topology.IsUnknown() && !prior.Topology.IsNull() {
		checkDrift(c, before, planned.lines(), changed == nil, diags)
	}
	if _, exists := before.Queues[old.Work.Name]; !exists {
		return // no message can be under way: a create that was killed
	}
	for _, change := range changed {
		diags.AddAttributeError(tfkit.Path(change), "Change Not Supported in Place",
			fmt.Sprintf("This version of the provider cannot change %s of the living chain %q: RabbitMQ fixes it when the queues are declared, and messages "+
				"may be under way. Undo the change. To make it, add a chain of another name with the new value, move publishers and consumers "+
				"over, and remove this one when it is empty.", change, c.Name))
	}
}

// immutableChanges returns the attributes that differ and are fixed in the
// arguments of queues.
func immutableChanges(a, b retry.Chain) []string {
	var changed []string
	for _, field := range []struct {
		attribute string
		a, b      any
	}{
		{"delays", a.Delays, b.Delays},
		{"strategy", a.Strategy, b.Strategy},
		{"queue_type", a.QueueType, b.QueueType},
		{"dead_letter_strategy", a.DeadLetterStrategy, b.DeadLetterStrategy},
		{"work_queue.name", a.Work.Name, b.Work.Name},
		{"work_queue.delivery_limit", a.Work.DeliveryLimit, b.Work.DeliveryLimit},
		{"work_queue.message_ttl", a.Work.MessageTTL, b.Work.MessageTTL},
		{"work_queue.max_length", a.Work.MaxLength, b.Work.MaxLength},
		{"work_queue.max_length_bytes", a.Work.MaxLengthBytes, b.Work.MaxLengthBytes},
		{"work_queue.overflow", a.Work.Overflow, b.Work.Overflow},
		{"work_queue.single_active_consumer", a.Work.SingleActiveConsumer, b.Work.SingleActiveConsumer},
		{"work_queue.arguments", a.Work.Arguments, b.Work.Arguments},
		{"parking_queue.name", a.Parking.Name, b.Parking.Name},
		{"parking_queue.message_ttl", a.Parking.MessageTTL, b.Parking.MessageTTL},
	} {
		if !reflect.DeepEqual(field.a, field.b) {
			changed = append(changed, field.attribute)
		}
	}
	return changed
}

// checkDrift refuses repairs that would open a gap: an exchange, the work queue
// or the parking queue that exists in another form can only be deleted and
// declared again. Queues that differ because an attribute changed are left to
// the error that names the attribute.
func checkDrift(c retry.Chain, have, want topology.Lines, queues bool, diags *diag.Diagnostics) {
	for name, line := range want.Exchanges {
		if actual, exists := have.Exchanges[name]; exists && actual != line {
			addDrift(diags, "Exchange", name, actual, line)
		}
	}
	if !queues {
		return
	}
	for _, name := range []string{c.Work.Name, c.Parking.Name} {
		if actual, exists := have.Queues[name]; exists && actual != want.Queues[name] {
			addDrift(diags, "Queue", name, actual, want.Queues[name])
		}
	}
}

func addDrift(diags *diag.Diagnostics, kind, name, actual, wanted string) {
	diags.AddAttributeError(path.Root("topology"), kind+" Exists in Another Form",
		fmt.Sprintf("%s %q is on the broker as\n\n  %s\n\nand the chain needs\n\n  %s\n\nRabbitMQ cannot change it in place, and to delete and declare it again would lose "+
			"messages that arrive in between. Stop publishers and consumers of the chain, make sure that no message is under way, delete the object "+
			"by hand and apply again.", kind, name, actual, wanted))
}

func addVHostError(diags *diag.Diagnostics, err error) {
	var missing *broker.VhostError
	if errors.As(err, &missing) && !missing.Exists {
		diags.AddAttributeError(path.Root("vhost"), "Virtual Host Not Found",
			tfkit.Sentence(err.Error())+"\n\nIf the same run creates the virtual host, refer to it by a value that is known only after apply, such as the id of its resource.")
		return
	}
	tfkit.AddError(diags, "Virtual Host Not Read", err)
}
