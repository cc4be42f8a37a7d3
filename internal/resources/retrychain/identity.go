package retrychain

import "github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"

func (m model) identity() lifecycle.NamedIdentity {
	return lifecycle.NamedIdentity{VHost: m.VHost, Name: m.Name}
}
