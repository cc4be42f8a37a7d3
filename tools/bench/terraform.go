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

// terraform runs the CLI with the provider just built.
type terraform struct {
	cli, version string
	// dir holds the provider, and a folder for every workspace.
	dir string
}

func prepareTerraform(ctx context.Context, b *bench) (*terraform, error) {
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
	tf := &terraform{cli: path, dir: dir}
	if err := cli.BuildProvider(ctx, ".", dir); err != nil {
		tf.remove()
		return nil, err
	}
	w, err := tf.workspace(ctx, b, b.endpoint, "")
	if err == nil {
		tf.version, err = w.Run(ctx, "version")
	}
	if err != nil {
		tf.remove()
		return nil, err
	}
	tf.version, _, _ = strings.Cut(tf.version, "\n")
	return tf, nil
}

func (tf *terraform) remove() { _ = os.RemoveAll(tf.dir) }

func (tf *terraform) printVersions(b *bench) {
	fmt.Printf("RabbitMQ %s (%s), %s, %d CPUs\n", b.version, b.source, tf.version, runtime.NumCPU())
}

// workspace is a new folder with a configuration. The provider gets the
// endpoint from the environment.
func (tf *terraform) workspace(ctx context.Context, b *bench, endpoint, config string) (*cli.Workspace, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(tf.dir, "workspace-")
	if err != nil {
		return nil, err
	}
	w, err := cli.NewWorkspace(tf.cli, dir, tf.dir, config)
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
func (tf *terraform) peakMemory(ctx context.Context, w *cli.Workspace, args []string) (int64, error) {
	command := w.Command(ctx, args...)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	sampler := memorySampler{program: filepath.Join(tf.dir, "terraform-provider-rabbitmq")}
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
