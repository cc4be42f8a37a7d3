package simulator

import (
	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// rules are the abilities of a version that decide what happens to a message, asked for
// once: see the rows of the same names in internal/abilities.
type rules struct {
	equality topology.Equality
	lastDeath, keyRemovesCC, trustsClients, shufflesDeaths, carriesCount, classicCounts,
	countsAcquired, limitsAcquired, nackIsRelease, rejectFails, defaultLimit, requeuesBehind,
	expiresReturned, keepsOwn, delaysReturned, delayedExchange, keepsDelay, getSetsCount bool
}

func rulesOf(version string) (rules, error) {
	v, err := abilities.Parse(version)
	if err != nil {
		return rules{}, err
	}
	v = v.Release()
	r := rules{
		lastDeath:       v.Has(abilities.LastDeathHeaders),
		keyRemovesCC:    v.Has(abilities.KeyRemovesCC),
		trustsClients:   v.Has(abilities.TrustsClients),
		shufflesDeaths:  v.Has(abilities.ShufflesDeaths),
		classicCounts:   v.Has(abilities.ClassicCounts),
		carriesCount:    v.Has(abilities.CarriesCount),
		countsAcquired:  v.Has(abilities.CountsAcquired),
		limitsAcquired:  v.Has(abilities.LimitsAcquired),
		nackIsRelease:   v.Has(abilities.NackIsRelease),
		rejectFails:     v.Has(abilities.RejectFails),
		defaultLimit:    v.Has(abilities.UnlimitedDelivery),
		requeuesBehind:  v.Has(abilities.RequeuesBehind),
		expiresReturned: v.Has(abilities.ExpiresReturned),
		delaysReturned:  v.Has(abilities.DelayedRetryArguments),
		keepsOwn:        v.Has(abilities.KeepsOwn),
		delayedExchange: v.Has(abilities.DelayedMessagePlugin),
		keepsDelay:      v.Has(abilities.KeepsDelay),
		getSetsCount:    v.Has(abilities.GetSetsCount),
	}
	if v.Has(abilities.NumericHeaders) {
		r.equality = topology.Numeric
	}
	return r, nil
}
