package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
)

// terraform runs the CLI with the provider just built, and with that of another commit.
type terraform struct {
	cli, version string
	// dir holds the providers, and a folder for every workspace.
	dir       string
	providers []provider
}

// provider is one that is measured, with the folder of its program.
type provider struct{ name, dir string }

func (p provider) program() string { return filepath.Join(p.dir, "terraform-provider-rabbitmq") }

// prepareTerraform finds the CLI and builds the provider, and that of the commit
// baseline unless it is "".
func prepareTerraform(ctx context.Context, b *bench, baseline string) (*terraform, error) {
	if err := cli.DropMissingConfig(); err != nil {
		return nil, err
	}
	path, _, err := cli.Find(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "retry-bench-")
	if err != nil {
		return nil, err
	}
	tf := &terraform{cli: path, dir: dir, providers: []provider{{"this provider", dir}}}
	if err := tf.prepare(ctx, b, baseline); err != nil {
		tf.remove()
		return nil, err
	}
	return tf, nil
}

func (tf *terraform) prepare(ctx context.Context, b *bench, baseline string) error {
	if err := cli.BuildProvider(ctx, ".", tf.dir); err != nil {
		return err
	}
	if baseline != "" {
		p := provider{"provider of " + baseline, filepath.Join(tf.dir, "baseline")}
		if err := buildCommit(ctx, baseline, filepath.Join(tf.dir, "source"), p.dir); err != nil {
			return err
		}
		tf.providers = append(tf.providers, p)
	}
	w, err := tf.workspace(ctx, b, tf.providers[0], b.endpoint, "")
	if err != nil {
		return err
	}
	tf.version, err = w.Run(ctx, "version")
	tf.version, _, _ = strings.Cut(tf.version, "\n")
	return err
}

// buildCommit builds the provider of a commit from its files, which it puts into source.
func buildCommit(ctx context.Context, commit, source, dir string) error {
	for _, folder := range []string{source, dir} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
	}
	archive := source + ".tar"
	for _, args := range [][]string{{"git", "archive", "--output", archive, commit}, {"tar", "-xf", archive, "-C", source}} {
		if output, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, output)
		}
	}
	return cli.BuildProvider(ctx, source, dir)
}

func (tf *terraform) remove() { _ = os.RemoveAll(tf.dir) }

func (tf *terraform) printVersions(b *bench) {
	fmt.Printf("RabbitMQ %s (%s), %s, %d CPUs\n", b.version, b.source, tf.version, runtime.NumCPU())
}

// workspace is a new folder with a configuration. The provider gets the
// endpoint from the environment.
func (tf *terraform) workspace(ctx context.Context, b *bench, p provider, endpoint, config string) (*cli.Workspace, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(tf.dir, "workspace-")
	if err != nil {
		return nil, err
	}
	w, err := cli.NewWorkspace(tf.cli, dir, p.dir, config)
	if err != nil {
		return nil, err
	}
	w.Env = append(w.Env, "RABBITMQ_ENDPOINT="+endpoint, "RABBITMQ_USERNAME="+b.username, "RABBITMQ_PASSWORD="+b.password)
	return w, nil
}

const chainConfig = `terraform {
  required_providers {
    rabbitmq = {
      source = "retrychain/rabbitmq"
    }
  }
}

resource "rabbitmq_retry_chain" "this" {
  for_each = toset([for i in range(%d) : format("chain-%%04d", i)])

  name       = each.key
  vhost      = %q
  strategy   = %q
  queue_type = "classic"
  delays     = ["5s", "30s", "5m"]
}
`

func (b *bench) chains(n int, vhost string) string {
	return fmt.Sprintf(chainConfig, n, vhost, b.strategy())
}

// floorConfig has resources that do nothing: what Terraform itself needs.
const floorConfig = `resource "terraform_data" "this" {
  for_each = toset([for i in range(%d) : format("chain-%%04d", i)])

  input = each.key
}
`

var (
	applyArgs = []string{"apply", "-auto-approve", "-input=false"}
	planArgs  = []string{"plan", "-detailed-exitcode", "-input=false"}
)

// timed runs the CLI and returns how long that took. A plan that is not empty
// is an error.
func timed(ctx context.Context, w *cli.Workspace, args []string) (time.Duration, error) {
	begin := time.Now()
	_, err := w.Run(ctx, args...)
	return time.Since(begin), err
}

// peakMemory runs the CLI and returns the largest resident set of a provider
// process during the run, in bytes: VmHWM of /proc, which is a maximum, read
// until the process ends. It is 0 on systems without /proc.
func peakMemory(ctx context.Context, p provider, w *cli.Workspace, args []string) (int64, error) {
	command := w.Command(ctx, args...)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	sampler := memorySampler{program: p.program()}
	for {
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				err = fmt.Errorf("terraform %s: %w\n%s", args[0], err, output.Bytes())
			}
			return sampler.peak, err
		case <-time.After(sampleInterval):
			sampler.sample()
		}
	}
}
