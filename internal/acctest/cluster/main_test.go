package cluster_test

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

func TestMain(m *testing.M) { acctest.Main(m) }

// journey is a test on a cluster of which every node runs. It may kill nodes.
type journey struct {
	name string
	run  func(t *testing.T, c *rabbit.Cluster)
}

var quorum = []journey{
	{"LeadersAreSpread", leadersAreSpread},
	{"LeadersDie", leadersDie},
	{"SharedLeadersDie", sharedLeadersDie},
	{"NodeDown", nodeDown},
	{"EndpointDies", endpointDies},
	{"NoMajority", noMajority},
	{"AllNodesDie", allNodesDie},
}

var classic = []journey{
	{"ClassicNodeDown", classicNodeDown},
}

// clusters are the versions, with the number of nodes and what is tried on them.
var clusters = map[string]struct {
	nodes    int
	journeys []journey
}{
	// Classic queues have no replicas, and quorum queues of 3.10 know strategy
	// routing_key only.
	"3.10": {2, classic},
	"4.0":  {3, slices.Concat(quorum, classic)},
	"4.3":  {3, slices.Concat(quorum, classic)},
}

// TestCluster runs the journeys one after the other on a cluster of each version:
// TestCluster/4.3/LeadersDie.
func TestCluster(t *testing.T) {
	if os.Getenv(rabbit.EnvCluster) == "" {
		t.Skip("starts clusters: run make test-cluster")
	}
	versions, err := rabbit.SelectedVersions()
	if err != nil {
		t.Fatal(err)
	}
	if len(versions) == 0 {
		versions = slices.Sorted(maps.Keys(clusters))
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			tests, known := clusters[version]
			if !known {
				t.Fatalf("no cluster of RabbitMQ %s is tested", version)
			}
			c := rabbit.StartCluster(t, version, tests.nodes)
			for _, j := range tests.journeys {
				t.Run(j.name, func(t *testing.T) {
					if err := c.Heal(t.Context()); err != nil {
						t.Fatal(err)
					}
					j.run(t, c)
				})
			}
		})
	}
}
