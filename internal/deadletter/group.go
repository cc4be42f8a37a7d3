package deadletter

import (
	"cmp"
	"slices"
	"time"
)

// Group is a set of messages that have something in common.
type Group struct {
	Name  string
	Count int64
	// First and Last are the earliest and the latest last death, zero when no
	// message has one.
	First, Last time.Time
}

func (g *Group) add(at time.Time) {
	g.Count++
	if at.IsZero() {
		return
	}
	if g.First.IsZero() || at.Before(g.First) {
		g.First = at
	}
	if at.After(g.Last) {
		g.Last = at
	}
}

// Groups counts messages by what they have in common.
type Groups struct {
	// Period is the length of the time periods, which begin at multiples of it
	// since 1970.
	Period time.Duration

	all                        Group
	origins, reasons, keys, at map[string]*Group
}

// Add counts the message.
func (g *Groups) Add(p Message) {
	if g.origins == nil {
		g.origins, g.reasons, g.keys, g.at = map[string]*Group{}, map[string]*Group{}, map[string]*Group{}, map[string]*Group{}
	}
	g.all.add(p.LastDeath)
	period := ""
	if !p.LastDeath.IsZero() && g.Period > 0 {
		seconds := int64(g.Period / time.Second)
		period = time.Unix(p.LastDeath.Unix()/seconds*seconds, 0).UTC().Format(time.RFC3339)
	}
	count(g.origins, p.OriginQueue, p.LastDeath)
	count(g.reasons, p.Reason, p.LastDeath)
	count(g.keys, p.RoutingKey, p.LastDeath)
	count(g.at, period, p.LastDeath)
}

func count(groups map[string]*Group, name string, at time.Time) {
	if groups[name] == nil {
		groups[name] = &Group{Name: name}
	}
	groups[name].add(at)
}

// All is the group of all messages.
func (g *Groups) All() Group { return g.all }

// ByOrigin returns the largest groups first. The name is "" where the messages
// do not tell.
func (g *Groups) ByOrigin() []Group { return bySize(g.origins) }

// ByReason is as [Groups.ByOrigin].
func (g *Groups) ByReason() []Group { return bySize(g.reasons) }

// ByRoutingKey is as [Groups.ByOrigin].
func (g *Groups) ByRoutingKey() []Group { return bySize(g.keys) }

// ByPeriod returns the periods that have messages in their order. The name is
// the period's start, in RFC 3339.
func (g *Groups) ByPeriod() []Group {
	list := bySize(g.at)
	slices.SortFunc(list, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func bySize(groups map[string]*Group) []Group {
	list := make([]Group, 0, len(groups))
	for _, g := range groups {
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return list
}
