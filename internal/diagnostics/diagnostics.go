// Package diagnostics turns errors and problems into diagnostics of Terraform.
package diagnostics

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
)

// AddProblems adds the problems as attribute diagnostics, warnings only on
// demand.
func AddProblems(diags *diag.Diagnostics, problems []retry.Problem, warnings bool) {
	for _, p := range problems {
		switch {
		case !p.Warning:
			diags.AddAttributeError(Path(p.Attribute), p.Summary, Locate(p.Attribute, p.Detail))
		case warnings:
			diags.AddAttributeWarning(Path(p.Attribute), p.Summary, Locate(p.Attribute, p.Detail))
		}
	}
}

// Path reads an attribute's address as it is written in HCL, such as
// "work_queue.bindings[2].exchange".
func Path(text string) path.Path {
	at := path.Empty()
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		if index, err := strconv.Atoi(part); err == nil {
			at = at.AtListIndex(index)
			continue
		}
		at = at.AtName(part)
	}
	return at
}

// Locate adds the address of a nested attribute to a text: the CLI shows the
// line of an attribute at the top of a resource, but only the resource's first
// line for one inside.
func Locate(attribute, text string) string {
	if !strings.ContainsAny(attribute, ".[") {
		return text
	}
	return text + "\n\nAttribute: " + attribute
}

// AddError adds the error as a diagnostic. What the error is decides the short
// text above it, where package broker knows that; else it is the given one.
func AddError(diags *diag.Diagnostics, title string, err error) {
	text := Sentence(err.Error())
	if errors.Is(err, context.DeadlineExceeded) {
		text += "\n\nThe text above says what was waited for. Remove its cause, or increase the attribute timeouts, and apply again."
	}
	diags.AddError(titleOf(err, title), text)
}

func titleOf(err error, title string) string {
	switch {
	case is[*broker.ConnectionError](err):
		return "Broker Not Reached"
	case is[*broker.TLSError](err):
		return "No Secure Connection to the Broker"
	case is[*broker.EndpointError](err):
		return "Not a RabbitMQ Management API"
	case is[*broker.ClusterError](err):
		return "Endpoints of Different Clusters"
	case is[*broker.CredentialsError](err):
		return "Login Refused"
	case is[*broker.PermissionError](err):
		return "Permission Missing"
	case is[*broker.VhostError](err):
		return titleOfVhost(err)
	case is[*broker.AMQPError](err):
		return "Broker Not Reached Over AMQP"
	case is[*broker.NodesDownError](err):
		return "Nodes Down"
	case is[*broker.ConnectionLimitError](err):
		return "Connection Limit Reached"
	case is[*broker.StatsError](err), is[*broker.UnknownError](err):
		return "Queues Not Proved Empty"
	default:
		return title
	}
}

func titleOfVhost(err error) string {
	var missing *broker.VhostError
	if errors.As(err, &missing) && missing.Exists {
		return "No Access to the Virtual Host"
	}
	return "Virtual Host Not Found"
}

func is[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}

// Sentence makes an error's text start and end as a sentence does.
func Sentence(text string) string {
	if text == "" {
		return text
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}
