package topology_test

import (
	"slices"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

func TestArgumentsAndKeys(t *testing.T) {
	for argument, key := range map[string]string{
		topology.MessageTTL:          topology.KeyMessageTTL,
		topology.ConsumerTimeout:     topology.KeyConsumerTimeout,
		"x-quorum-target-group-size": "target-group-size",
		"x-unknown":                  "unknown",
	} {
		if got := topology.ArgumentOf(key); got != argument {
			t.Errorf("the argument of %s is %s", key, got)
		}
		if got := topology.KeyOf(argument); got != key {
			t.Errorf("the key of %s is %s", argument, got)
		}
	}
	arguments := topology.QueueArguments()
	if !slices.IsSorted(arguments) || !slices.Contains(arguments, topology.SingleActiveConsumer) || slices.Contains(arguments, "") {
		t.Errorf("arguments of queues: %q", arguments)
	}
}

// TestSupports lists keys with which RabbitMQ does not apply a policy to a type.
func TestSupports(t *testing.T) {
	for key, types := range map[string][]topology.QueueType{
		topology.KeyMessageTTL:        {topology.Stream},
		topology.KeyMaxLengthBytes:    nil,
		topology.KeyDeliveryLimit:     {topology.Classic, topology.Stream},
		topology.KeyConsumerTimeout:   nil,
		topology.KeyDelayedRetryType:  nil,
		topology.KeyMirroring:         {topology.Quorum, topology.Stream},
		"max-age":                     {topology.Classic, topology.Quorum},
		"max-in-memory-length":        {topology.Stream},
		"selector-fields":             {topology.Classic, topology.Quorum, topology.Stream},
		"queue-version":               nil,
		"a-key-that-nobody-knows-yet": nil,
	} {
		for _, kind := range []topology.QueueType{topology.Classic, topology.Quorum, topology.Stream} {
			if kind.Supports(key) == slices.Contains(types, kind) {
				t.Errorf("%s supports %s: %v", kind, key, kind.Supports(key))
			}
		}
		if !topology.QueueType("").Supports(key) {
			t.Errorf("a type that is not known yet does not support %s", key)
		}
	}
}

func TestWorksOn(t *testing.T) {
	for _, test := range []struct {
		argument, version string
		kind              topology.QueueType
		want              bool
	}{
		{topology.MessageTTL, "3.10.8", topology.Classic, true},
		{topology.MessageTTL, "3.10.8", topology.Stream, false},
		{topology.ConsumerTimeout, "3.11.28", topology.Quorum, false},
		{topology.ConsumerTimeout, "3.12.0", topology.Classic, true},
		{topology.DelayedRetryType, "4.2.9", topology.Quorum, false},
		{topology.DelayedRetryType, "4.3.6", topology.Quorum, true},
		{topology.DelayedRetryType, "4.3.6", topology.Classic, false},
	} {
		s, known := topology.SettingOf(test.argument)
		if got := s.WorksOn(abilities.MustParse(test.version), test.kind); !known || got != test.want {
			t.Errorf("%s of a %s queue on %s: %v", test.argument, test.kind, test.version, got)
		}
	}
	if _, known := topology.SettingOf("x-unknown"); known {
		t.Error("an argument that nobody knows is known")
	}
}
