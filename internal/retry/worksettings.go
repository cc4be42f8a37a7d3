package retry

import (
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// workSetting is an argument of the work queue that has an attribute of its own.
type workSetting struct {
	// attribute is its name inside work_queue.
	attribute, argument string
	// value is that of the argument, nil if the attribute is not set.
	value func(w *WorkQueue) any
	// read sets the attribute from the arguments of a queue.
	read func(w *WorkQueue, arguments topology.Arguments)
	// isDuration: its attribute is written as a duration.
	isDuration bool
	// byPolicy: the chain's policy sets it for the queue of an application.
	byPolicy bool
}

// workSettings are all but the delivery limit, of which the chain needs a part itself.
var workSettings = []workSetting{
	duration("message_ttl", topology.MessageTTL, func(w *WorkQueue) **time.Duration { return &w.MessageTTL }),
	number("max_length", topology.MaxLength, func(w *WorkQueue) **int64 { return &w.MaxLength }),
	number("max_length_bytes", topology.MaxLengthBytes, func(w *WorkQueue) **int64 { return &w.MaxLengthBytes }),
	text("overflow", topology.Overflow, func(w *WorkQueue) *string { return &w.Overflow }),
	flag("single_active_consumer", topology.SingleActiveConsumer, func(w *WorkQueue) *bool { return &w.SingleActiveConsumer }),
	duration("consumer_timeout", topology.ConsumerTimeout, func(w *WorkQueue) **time.Duration { return &w.ConsumerTimeout }).alsoByPolicy(),
}

func duration(attribute, argument string, field func(*WorkQueue) **time.Duration) workSetting {
	return workSetting{
		attribute: attribute, argument: argument, isDuration: true,
		value: func(w *WorkQueue) any {
			if d := *field(w); d != nil {
				return milliseconds(*d)
			}
			return nil
		},
		read: func(w *WorkQueue, arguments topology.Arguments) { *field(w) = readDuration(arguments, argument) },
	}
}

func number(attribute, argument string, field func(*WorkQueue) **int64) workSetting {
	return workSetting{
		attribute: attribute, argument: argument,
		value: func(w *WorkQueue) any {
			if n := *field(w); n != nil {
				return *n
			}
			return nil
		},
		read: func(w *WorkQueue, arguments topology.Arguments) {
			*field(w) = nil
			if n, set := arguments.Int(argument); set {
				*field(w) = &n
			}
		},
	}
}

func text(attribute, argument string, field func(*WorkQueue) *string) workSetting {
	return workSetting{
		attribute: attribute, argument: argument,
		value: func(w *WorkQueue) any {
			if s := *field(w); s != "" {
				return s
			}
			return nil
		},
		read: func(w *WorkQueue, arguments topology.Arguments) { *field(w) = arguments.String(argument) },
	}
}

func flag(attribute, argument string, field func(*WorkQueue) *bool) workSetting {
	return workSetting{
		attribute: attribute, argument: argument,
		value: func(w *WorkQueue) any {
			if *field(w) {
				return true
			}
			return nil
		},
		read: func(w *WorkQueue, arguments topology.Arguments) { *field(w) = arguments[argument] == true },
	}
}

// alsoByPolicy is the setting of a queue that belongs to an application, too.
func (s workSetting) alsoByPolicy() workSetting {
	s.byPolicy = true
	return s
}

func readDuration(arguments topology.Arguments, key string) *time.Duration {
	ms, set := arguments.Int(key)
	if !set {
		return nil
	}
	d := time.Duration(ms) * time.Millisecond
	return &d
}

// Setting is an attribute of the work queue.
type Setting struct {
	// Attribute is its name inside work_queue.
	Attribute string
	// Value is that of the argument, nil if the attribute is not set.
	Value any
	// IsDuration: it is written as a duration.
	IsDuration bool
}

// Settings are the attributes of the work queue that are arguments, or keys of the chain's
// policy, but for the delivery limit.
func (w WorkQueue) Settings() []Setting {
	settings := make([]Setting, 0, len(workSettings))
	for _, s := range workSettings {
		settings = append(settings, Setting{Attribute: s.attribute, Value: s.value(&w), IsDuration: s.isDuration})
	}
	return settings
}

// checkSettings refuses attributes that a broker does not know for queues of the type.
func (c Chain) checkSettings(version string) []Problem {
	var p problems
	v, err := abilities.Parse(version)
	if err != nil {
		return nil // what cannot be compared is not refused
	}
	kind := c.QueueType
	if c.Work.Existing {
		kind = c.Work.Type
	}
	for _, s := range workSettings {
		known, is := topology.SettingOf(s.argument)
		if s.value(&c.Work) == nil || kind == "" || !is || known.WorksOn(v, kind) {
			continue
		}
		p.errorf("work_queue."+s.attribute, "Setting Not Supported by This Broker",
			"RabbitMQ %s does not know %s for %s queues. Leave work_queue.%s out%s.",
			version, s.argument, kind, s.attribute, needs(known.InFor(kind)))
	}
	return p
}

// needs ends a sentence on how to get what a broker lacks.
func needs(a *abilities.Ability) string {
	if a == nil {
		return ""
	}
	return ", or use RabbitMQ " + a.In.String()
}
