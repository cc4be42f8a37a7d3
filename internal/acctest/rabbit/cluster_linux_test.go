package rabbit

import (
	"errors"
	"testing"
)

// A cluster survives the death of a node, which joins it again with its data.
func TestLifeOfACluster(t *testing.T) {
	t.Parallel()
	onlyFull(t)
	sizes := map[string]int{"3.10": 2, "4.0": 3, "4.3": 3}
	for _, version := range Spread(t.Name(), testVersions(t)) {
		t.Run(version, func(t *testing.T) {
			c := StartCluster(t, version, sizes[version])
			ctl(t, c.Nodes[0], "add_vhost", "kept")
			if err := c.Kill(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			ctl(t, c.Nodes[1], "add_vhost", "added")
			if err := c.Start(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if err := c.Nodes[0].get(t.Context(), "/api/vhosts/added", &struct{}{}); err != nil {
				t.Error(err)
			}
			if err := c.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, b := range c.Nodes {
				n, ok := b.run.(*node)
				if !ok {
					t.Fatal(errors.New("not a node of this machine"))
				}
				checkGone(t, b, n)
			}
		})
	}
}
