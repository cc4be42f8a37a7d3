package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
)

// exampleDir holds the configuration that the demo applies.
const exampleDir = "examples/demo"

// terraform runs the CLI in a folder of its own with the provider just built.
type terraform struct {
	*cli.Workspace
	strategy string
}

// toolsOrError are the CLI and a folder with the provider, or why there are none.
type toolsOrError struct {
	cli, dir string
	err      error
}

// prepareTools finds the CLI, or builds one, and builds the provider.
func prepareTools(ctx context.Context) (t toolsOrError) {
	if t.dir, t.err = os.MkdirTemp("", "retry-demo-"); t.err != nil {
		return t
	}
	if t.err = cli.DropMissingConfig(); t.err != nil {
		return t
	}
	if t.cli, _, t.err = cli.Find(ctx); t.err != nil {
		return t
	}
	start := time.Now()
	t.err = cli.BuildProvider(ctx, ".", t.dir)
	say("CLI %s, provider built in %.1f s", t.cli, time.Since(start).Seconds())
	return t
}

func prepareTerraform(t toolsOrError, b demoBroker) (*terraform, error) {
	config, err := os.ReadFile(filepath.Join(exampleDir, "main.tf"))
	if err != nil {
		return nil, err
	}
	workspace, err := cli.NewWorkspace(t.cli, t.dir, t.dir, string(config))
	if err != nil {
		return nil, err
	}
	workspace.Env = append(workspace.Env,
		"RABBITMQ_ENDPOINT="+b.endpoint, "RABBITMQ_USERNAME="+b.username, "RABBITMQ_PASSWORD="+b.password,
		"RABBITMQ_AMQP_ENDPOINT="+withoutUser(b.amqp),
		"TF_VAR_vhost="+vhost, "TF_VAR_strategy="+b.strategy())
	return &terraform{Workspace: workspace, strategy: b.strategy()}, nil
}

// chain is what the demo uses of the resource's attributes.
type chain struct {
	Name      string `json:"name"`
	Strategy  string `json:"strategy"`
	WorkQueue struct {
		Name string `json:"name"`
	} `json:"work_queue"`
	ParkingQueue struct {
		Name string `json:"name"`
	} `json:"parking_queue"`
	Delays          []string                     `json:"delays"`
	Tiers           []string                     `json:"tiers"`
	RedriveExchange string                       `json:"redrive_exchange"`
	Topology        map[string]map[string]string `json:"topology"`
}

// attempts is how often a message that always fails is delivered.
func (c chain) attempts() int { return len(c.Tiers) + 1 }

func (tf *terraform) apply(ctx context.Context) (chain, error) {
	config, err := os.ReadFile(filepath.Join(tf.Dir, "main.tf"))
	if err != nil {
		return chain{}, err
	}
	if _, text, found := strings.Cut(string(config), "\nresource "); found {
		text, _, _ = strings.Cut("resource "+text, "\noutput ")
		for line := range strings.Lines(strings.TrimSpace(text)) {
			say("| %s", strings.TrimRight(line, "\n"))
		}
	}
	begin := time.Now()
	if _, err := tf.Run(ctx, "apply", "-auto-approve", "-no-color", "-input=false"); err != nil {
		return chain{}, err
	}
	say("applied in %.1f s with strategy %q; on the broker there is now:", time.Since(begin).Seconds(), tf.strategy)
	output, err := tf.Run(ctx, "output", "-json", "chain")
	if err != nil {
		return chain{}, err
	}
	var c chain
	err = json.Unmarshal([]byte(output), &c)
	return c, err
}

func (tf *terraform) destroy(ctx context.Context) error {
	_, err := tf.Run(ctx, "destroy", "-auto-approve", "-no-color", "-input=false")
	return err
}

func printChain(c chain) {
	for _, kind := range []string{"exchanges", "queues", "bindings"} {
		say("%s", kind)
		for _, name := range sortedKeys(c.Topology[kind]) {
			say("  %-44s %s", name, c.Topology[kind][name])
		}
	}
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func printKept(b demoBroker, tf *terraform) {
	title("Everything is still there (KEEP=1)")
	say("management interface  %s  user %s, virtual host %s", b.endpoint, b.username, vhost)
	say("AMQP                  %s", b.amqp)
	say("Terraform state       %s", tf.Dir)
	if b.own != nil {
		say("stop the broker       kill %s", processGroups(b.own.PIDs))
	}
}

func processGroups(pids []int) string {
	text := "--"
	for _, pid := range pids {
		text += fmt.Sprintf(" -%d", pid)
	}
	return text
}
