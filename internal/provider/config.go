package provider

import (
	"cmp"
	"context"
	"errors"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

type model struct {
	Endpoint            types.String `tfsdk:"endpoint"`
	Username            types.String `tfsdk:"username"`
	Password            types.String `tfsdk:"password"`
	Token               types.String `tfsdk:"token"`
	VHost               types.String `tfsdk:"vhost"`
	AMQPEndpoint        types.String `tfsdk:"amqp_endpoint"`
	Insecure            types.Bool   `tfsdk:"insecure"`
	CACertFile          types.String `tfsdk:"cacert_file"`
	ClientCertFile      types.String `tfsdk:"clientcert_file"`
	ClientKeyFile       types.String `tfsdk:"clientkey_file"`
	Proxy               types.String `tfsdk:"proxy"`
	Headers             types.Map    `tfsdk:"headers"`
	RequestTimeout      types.String `tfsdk:"request_timeout"`
	MaxRetries          types.Int64  `tfsdk:"max_retries"`
	MaxParallelRequests types.Int64  `tfsdk:"max_parallel_requests"`
}

// defaultVHost is the virtual host of objects that name none: null without one.
func (m model) defaultVHost() types.String {
	if name := os.Getenv("RABBITMQ_VHOST"); m.VHost.IsNull() && name != "" {
		return types.StringValue(name)
	}
	return m.VHost
}

// hasUnknown says whether any part of the connection is known only after apply. Such
// a value is not an empty one: the environment must not stand in for it.
func (m model) hasUnknown() bool {
	m.VHost = types.StringNull() // no part of the connection
	fields := reflect.ValueOf(m)
	for i := range fields.NumField() {
		if value, ok := fields.Field(i).Interface().(attr.Value); ok && value.IsUnknown() {
			return true
		}
	}
	for _, header := range m.Headers.Elements() {
		if header.IsUnknown() {
			return true
		}
	}
	return false
}

// settings merges configuration and environment; the configuration wins.
func (m model) settings(ctx context.Context, diags *diag.Diagnostics) broker.Config {
	config := broker.Config{
		Endpoint: required(diags, "endpoint", m.Endpoint, "RABBITMQ_ENDPOINT",
			"the address of the management API, such as http://localhost:15672"),
		AMQPEndpoint:   optional(m.AMQPEndpoint, "RABBITMQ_AMQP_ENDPOINT"),
		Insecure:       insecure(diags, m.Insecure),
		CACertFile:     optional(m.CACertFile, "RABBITMQ_CACERT"),
		ClientCertFile: optional(m.ClientCertFile, "RABBITMQ_CLIENTCERT"),
		ClientKeyFile:  optional(m.ClientKeyFile, "RABBITMQ_CLIENTKEY"),
		Proxy:          optional(m.Proxy, "RABBITMQ_PROXY"),
		RequestTimeout: requestTimeout(m.RequestTimeout),
		MaxRetries:     int(m.MaxRetries.ValueInt64()),
	}
	m.logIn(&config, diags)
	if !m.MaxRetries.IsNull() && config.MaxRetries == 0 {
		config.MaxRetries = -1 // the client's word for "none"
	}
	config.MaxParallelRequests = int(m.MaxParallelRequests.ValueInt64())
	diags.Append(m.Headers.ElementsAs(ctx, &config.Headers, false)...)
	return config
}

// logIn fills in a token, or else a user name and a password. What the block has of either
// rules out the other one's environment: only there can both be set.
func (m model) logIn(config *broker.Config, diags *diag.Diagnostics) {
	passwordBlock := !m.Username.IsNull() || !m.Password.IsNull()
	if !passwordBlock {
		config.Token = strings.TrimSpace(optional(m.Token, "RABBITMQ_TOKEN"))
	}
	if config.Token == "" {
		config.Username = required(diags, "username", m.Username, "RABBITMQ_USERNAME", "the user of the management API, or a token")
		config.Password = required(diags, "password", m.Password, "RABBITMQ_PASSWORD", "the password of that user, or a token")
		return
	}
	if m.Token.IsNull() && os.Getenv("RABBITMQ_PASSWORD") != "" {
		diags.AddError("Token and Password", "Both RABBITMQ_TOKEN and RABBITMQ_PASSWORD are in the environment. "+
			"Unset one of them, or set the other one in the provider block.")
	}
}

func optional(value types.String, variable string) string {
	if value.IsNull() {
		return os.Getenv(variable)
	}
	return value.ValueString()
}

func required(diags *diag.Diagnostics, attribute string, value types.String, variable, what string) string {
	text := optional(value, variable)
	if text == "" {
		diags.AddAttributeError(path.Root(attribute), "Missing Provider Configuration",
			"The provider needs "+what+". Set "+attribute+" in the provider block, or the environment variable "+variable+".")
	}
	return text
}

func insecure(diags *diag.Diagnostics, value types.Bool) bool {
	if !value.IsNull() {
		return value.ValueBool()
	}
	const variable = "RABBITMQ_INSECURE"
	set, err := strconv.ParseBool(cmp.Or(os.Getenv(variable), "false"))
	if err != nil {
		diags.AddAttributeError(path.Root("insecure"), "Invalid Environment Variable",
			"The environment variable "+variable+" is "+strconv.Quote(os.Getenv(variable))+"; it must be true or false.")
	}
	return set
}

// requestTimeout expects a value that the schema's validator has accepted.
func requestTimeout(value types.String) time.Duration {
	if d := values.DurationOf(value); d != nil {
		return *d
	}
	return broker.DefaultRequestTimeout
}

// attributeOf names the attribute of each field of [broker.Config] that can be
// wrong.
var attributeOf = map[string]string{
	"Endpoint": "endpoint", "Username": "username", "Token": "token", "AMQPEndpoint": "amqp_endpoint", "CACertFile": "cacert_file",
	"ClientCertFile": "clientcert_file", "ClientKeyFile": "clientkey_file", "Proxy": "proxy", "Headers": "headers",
}

// addConfigError adds an error of [broker.New] on the attribute that it is about.
func addConfigError(diags *diag.Diagnostics, err error) {
	const title = "Invalid Provider Configuration"
	var wrong *broker.ConfigError
	if errors.As(err, &wrong) && attributeOf[wrong.Field] != "" {
		diags.AddAttributeError(path.Root(attributeOf[wrong.Field]), title, diagnostics.Sentence(err.Error()))
		return
	}
	diagnostics.AddError(diags, title, err)
}
