package retrychain

import "github.com/retrychain/terraform-provider-rabbitmq/internal/tfkit"

func (m model) identity() tfkit.NamedIdentity {
	return tfkit.NamedIdentity{VHost: m.VHost, Name: m.Name}
}
