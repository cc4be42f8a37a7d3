package rabbit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// image is a Docker image of RabbitMQ with the management plugin.
type image string

func (i image) String() string { return "the Docker image " + string(i) }

// container is a Docker container with a broker.
type container struct {
	Name  string `json:"name"`
	leash *leash
}

// dockerOrigin returns the image of a version, downloaded if it is not there.
func dockerOrigin(ctx context.Context, version string, log io.Writer) (origin, error) {
	if err := dockerRuns(ctx); err != nil {
		return nil, err
	}
	if version == "" {
		version = versions[len(versions)-1]
	}
	name := "rabbitmq:" + version + "-management"
	if _, err := docker(ctx, "image", "inspect", name); err != nil {
		fmt.Fprintf(log, "downloading the Docker image %s\n", name)
		if _, err := docker(ctx, "pull", "--quiet", name); err != nil {
			return nil, err
		}
	}
	return image(name), nil
}

// dockerRuns checks that there is a Docker daemon and that it answers soon.
func dockerRuns(ctx context.Context) error {
	if _, err := exec.LookPath("docker"); err != nil {
		return errors.New("not installed")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := docker(ctx, "info", "--format", "{{.ServerVersion}}"); err != nil {
		return fmt.Errorf("the daemon does not answer: %w", err)
	}
	return nil
}

// docker runs the client and returns what it says.
func docker(ctx context.Context, args ...string) (string, error) {
	said, err := Output(exec.CommandContext(ctx, "docker", args...), "docker", args...)
	return strings.TrimSpace(said), err
}

// start starts a container with ports of this machine that stay the same when
// it is restarted.
func (i image) start(ctx context.Context, o Options) (*Broker, error) {
	base, err := portBlock()
	if err != nil {
		return nil, err
	}
	outside := ports{amqp: base + 2, management: base + 3, tls: base + 4, metrics: base + 5}
	inside := ports{amqp: 5672, management: 15672, tls: 15671, metrics: 15692}
	c := &container{Name: "retrychain-" + strings.ToLower(rand.Text()[:12])}
	b := o.broker(outside)
	b.run = c
	if !o.Detached {
		if c.leash, err = newLeash(`docker rm --force --volumes "$1" >/dev/null 2>&1`, c.Name); err != nil {
			return nil, err
		}
	}
	if err := c.launch(ctx, string(i), o, inside, outside); err != nil {
		return nil, errors.Join(err, c.stop(context.WithoutCancel(ctx)))
	}
	return b, nil
}

// launch makes the container, puts its configuration in, and starts it. The
// files are copied, so the daemon may be on another machine's file system.
func (c *container) launch(ctx context.Context, image string, o Options, inside, outside ports) error {
	management := o.managementIP()
	if o.IPv6 {
		management = "[" + management + "]"
	}
	args := []string{
		"create", "--name", c.Name,
		"--publish", fmt.Sprintf("127.0.0.1:%d:%d", outside.amqp, inside.amqp),
		"--publish", fmt.Sprintf("%s:%d:%d", management, outside.management, inside.management),
	}
	if o.TLS != nil {
		args = append(args, "--publish", fmt.Sprintf("%s:%d:%d", management, outside.tls, inside.tls))
	}
	if o.exportsMetrics() {
		args = append(args, "--publish", fmt.Sprintf("127.0.0.1:%d:%d", outside.metrics, inside.metrics))
	}
	if _, err := docker(ctx, append(args, image)...); err != nil {
		return err
	}
	if err := c.configure(ctx, o, inside); err != nil {
		return err
	}
	_, err := docker(ctx, "start", c.Name)
	return err
}

// configure copies the configuration into the container.
func (c *container) configure(ctx context.Context, o Options, inside ports) error {
	const etc = "/etc/rabbitmq"
	dir, err := os.MkdirTemp("", "rabbit-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, "conf.d"), 0o755); err != nil {
		return err
	}
	// The image has files of its own in conf.d; the last one counts.
	files := map[string]string{
		"conf.d/99-test.conf": o.config(inside, etc, true),
		"advanced.config":     o.advancedConfig(),
		"enabled_plugins":     o.plugins(),
	}
	maps.Copy(files, o.Files)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := o.TLS.copyTo(dir); err != nil {
		return err
	}
	_, err = docker(ctx, "cp", dir+"/.", c.Name+":"+etc)
	return err
}

func (c *container) pids() []int { return nil }

func (c *container) running() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	said, err := docker(ctx, "inspect", "--format", "{{.State.Running}}", c.Name)
	return err == nil && said == "true"
}

func (c *container) restart(ctx context.Context) error {
	_, err := docker(ctx, "restart", c.Name)
	return err
}

func (c *container) kill() error {
	if !c.running() {
		return nil
	}
	_, err := docker(context.Background(), "kill", c.Name)
	return err
}

// stop removes the container at once: nothing of it is kept.
func (c *container) stop(context.Context) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := docker(ctx, "rm", "--force", "--volumes", c.Name)
	if err != nil {
		return err
	}
	c.leash.release()
	return nil
}

func (c *container) ctl(ctx context.Context, args ...string) (string, error) {
	return docker(ctx, append([]string{"exec", c.Name, "rabbitmqctl"}, args...)...)
}

func (c *container) logTail() string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// The client writes the container's standard error to its own.
	said, _ := exec.CommandContext(ctx, "docker", "logs", "--tail", "30", c.Name).CombinedOutput()
	return string(said)
}
