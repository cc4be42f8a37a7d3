// Package rabbit starts real RabbitMQ brokers for tests, the demo and the
// benchmark, or uses brokers that already run.
//
// [All] returns the brokers a test runs against: those named by
// RABBITMQ_TEST_ENDPOINTS, or else one broker of each version in [Versions],
// started for the occasion. [Start] starts a single broker that the caller
// may also kill, restart and inspect.
//
// A broker comes from a rabbitmq-server that is installed, from a Debian tree
// that is made once and kept in the user's cache, or from a Docker image.
package rabbit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// startLimit is how long a broker may take until it answers.
const startLimit = 2 * time.Minute

// ErrNotOwned is returned when a broker that was given by address is asked
// for something only its owner can do.
var ErrNotOwned = errors.New("this broker was given by address and is not ours to control")

// Broker is a running RabbitMQ node. [Broker.Ctl] may be called concurrently,
// the other methods may not.
//
// A Broker that was saved as JSON can be controlled by another process.
type Broker struct {
	// Name tells brokers apart in test names: "4.0" unless it was given.
	Name string `json:"name"`
	// Version is what the broker says, such as "4.0.5".
	Version string `json:"version"`
	// Endpoint is the URL of the management API without credentials, such as
	// "http://127.0.0.1:20003", with the path prefix if there is one.
	Endpoint string `json:"endpoint"`
	// TLSEndpoint is the same over https, or "" without [Options.TLS].
	TLSEndpoint string `json:"tls_endpoint,omitempty"`
	// Metrics is the URL of the metrics of the plugin rabbitmq_prometheus, or ""
	// unless [Options.Plugins] names it.
	Metrics string `json:"metrics,omitempty"`
	// AMQP is the URL of the AMQP 0-9-1 listener with credentials.
	AMQP string `json:"amqp"`
	// Username and Password are those of an administrator.
	Username string `json:"username"`
	Password string `json:"password"`
	// StatisticsInterval is how often the broker renews its counts of messages, or 0
	// for RabbitMQ's default.
	StatisticsInterval time.Duration `json:"statistics_interval,omitempty"`
	// Source says where the broker came from, for people.
	Source string `json:"source"`
	// Dir is the directory with the node's configuration, data and logs, or
	// "" when there is none on this machine.
	Dir string `json:"dir,omitempty"`
	// PIDs are the process groups on this machine that belong to the broker.
	PIDs []int `json:"pids,omitempty"`

	run runner
}

// Options say which broker to start and how. The zero value asks for any
// version with the management plugin.
type Options struct {
	// Name is the broker's name. The default is its version, "4.0".
	Name string
	// Version is "3.10", "4.0", "4.3" or another major.minor version that is
	// installed or has a Docker image. "" is whatever is had quickest.
	Version string
	// Newest asks for the newest version that can be had, instead of the one that is had
	// quickest. It needs an empty Version.
	Newest bool
	// TLS adds an https listener for the management API.
	TLS *TLSFiles
	// Dir holds the node's files. It is created if needed and kept by
	// [Broker.Stop]. The default is a temporary directory that is removed.
	// A container keeps nothing there.
	Dir string
	// PathPrefix is the path before /api, such as "/rabbit".
	PathPrefix string
	// Plugins are enabled besides rabbitmq_management.
	Plugins []string
	// ExtraConfig is appended to rabbitmq.conf. "{dir}" in it stands for the folder with
	// the copies of the TLS files, ca.pem, cert.pem and key.pem, and with Files.
	ExtraConfig string
	// Files are the texts of further files, by name.
	Files map[string]string
	// FastStatistics makes the broker renew its counts every [FastStatisticsInterval].
	FastStatistics bool
	// IPv6 moves the management listener from 127.0.0.1 to ::1.
	IPv6 bool
	// Detached lets the broker outlive this process. Otherwise it is killed
	// when this process ends without having stopped it, whatever the reason.
	Detached bool
	// Log receives a line before each step that takes long, such as a
	// download. The default is to say nothing.
	Log io.Writer

	// member makes the broker a node of a cluster.
	member *member
}

// TLSFiles are PEM files for an https listener and how it treats clients.
type TLSFiles struct {
	CA, Cert, Key string
	// VerifyPeer checks the certificate a client presents.
	VerifyPeer bool
	// FailIfNoPeerCert refuses clients without a certificate.
	FailIfNoPeerCert bool
}

// runner is what a broker runs on: processes or a container.
type runner interface {
	// pids are the process groups on this machine.
	pids() []int
	// running says whether the broker's process is there.
	running() bool
	// restart ends the broker if needed and starts it with the same data and
	// ports. It does not wait until the broker answers.
	restart(ctx context.Context) error
	// kill ends the broker at once.
	kill() error
	// stop ends everything and removes what is temporary. When ctx is done
	// before the broker has ended by itself, it is killed.
	stop(ctx context.Context) error
	ctl(ctx context.Context, args ...string) (string, error)
	// logTail is the end of the broker's log.
	logTail() string
}

// Start starts a broker and returns when its management API and its AMQP
// listener answer. The error says what was tried and what a person can do, or
// holds the end of the log of a node that did not start.
func Start(ctx context.Context, o Options) (*Broker, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	from, err := o.origin(ctx)
	if err != nil {
		return nil, err
	}
	b, err := from.start(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("start RabbitMQ from %s: %w", from, err)
	}
	if err := b.begin(ctx, from, o.Name); err != nil {
		return nil, err
	}
	return b, nil
}

func (o Options) origin(ctx context.Context) (origin, error) {
	if !o.Newest {
		return choose(ctx, o.Version, o.Log)
	}
	log := o.Log
	if log == nil {
		log = io.Discard
	}
	return chooseNewest(ctx, newestFirst(), log)
}

// begin waits until a broker that was just started answers. If it does not, it is
// stopped.
func (b *Broker) begin(ctx context.Context, from origin, name string) error {
	b.Source = from.String()
	if err := b.settle(ctx); err != nil {
		stopNow, cancel := context.WithCancel(context.Background())
		cancel()
		return fmt.Errorf("start RabbitMQ from %s: %w", from, errors.Join(err, b.Stop(stopNow)))
	}
	if b.Name = name; b.Name == "" {
		b.Name = minor(b.Version)
	}
	return nil
}

// StartAll starts brokers in parallel. If one fails, the others are stopped.
func StartAll(ctx context.Context, all []Options) ([]*Broker, error) {
	brokers := make([]*Broker, len(all))
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, o := range all {
		group.Go(func() { brokers[i], errs[i] = Start(ctx, o) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, StopAll(context.WithoutCancel(ctx), brokers))
	}
	return brokers, nil
}

// StopAll stops brokers in parallel. Nil entries are skipped.
func StopAll(ctx context.Context, brokers []*Broker) error {
	errs := make([]error, len(brokers))
	var group sync.WaitGroup
	for i, b := range brokers {
		if b != nil {
			group.Go(func() { errs[i] = b.Stop(ctx) })
		}
	}
	group.Wait()
	return errors.Join(errs...)
}

// All returns the brokers to test against: those given by
// [EnvEndpoints], or one of each version, started in parallel.
// [EnvVersions] selects some of them. Stop them with [StopAll].
func All(ctx context.Context) ([]*Broker, error) {
	versions, err := SelectedVersions()
	if err != nil {
		return nil, err
	}
	if Given() {
		return given(ctx, versions)
	}
	if len(versions) == 0 {
		versions = Versions()
	}
	var all []Options
	for _, v := range versions {
		all = append(all, Options{Version: v, FastStatistics: true, Log: os.Stderr})
	}
	return StartAll(ctx, all)
}

// Prepare installs or downloads what [Start] needs for a version and says
// where the broker will come from. Progress goes to log, which may be nil.
func Prepare(ctx context.Context, version string, log io.Writer) (string, error) {
	if err := (Options{Version: version}).check(); err != nil {
		return "", err
	}
	from, err := choose(ctx, version, log)
	if err != nil {
		return "", err
	}
	return from.String(), nil
}

// Stop ends the broker and all that was started for it. A broker in a
// temporary directory or a container is killed and its data removed; one with
// [Options.Dir] ends in good order, and is killed when ctx is done or 15
// seconds have passed. A broker given by address is left alone.
func (b *Broker) Stop(ctx context.Context) error {
	if b.run == nil {
		return nil
	}
	return b.run.stop(ctx)
}

// Kill ends the broker at once, as kill -9 does, and returns when it is gone.
// Its data and ports remain for [Broker.Restart].
func (b *Broker) Kill() error {
	if b.run == nil {
		return ErrNotOwned
	}
	return b.run.kill()
}

// Restart ends the broker in good order, if it runs, and starts it again with
// the same data, addresses and configuration. It returns when the broker
// answers.
func (b *Broker) Restart(ctx context.Context) error {
	if b.run == nil {
		return ErrNotOwned
	}
	if err := b.run.restart(ctx); err != nil {
		return fmt.Errorf("restart RabbitMQ %s: %w", b.Name, err)
	}
	if err := b.settle(ctx); err != nil {
		return fmt.Errorf("restart RabbitMQ %s: %w", b.Name, err)
	}
	return nil
}

// Ctl runs rabbitmqctl against the broker's node and returns its standard
// output. The error holds what it wrote to standard error.
func (b *Broker) Ctl(ctx context.Context, args ...string) (string, error) {
	if b.run == nil {
		return "", ErrNotOwned
	}
	return b.run.ctl(ctx, args...)
}

// Running says whether the broker's process is there, or for a broker given
// by address whether it answers.
func (b *Broker) Running(ctx context.Context) bool {
	if b.run == nil {
		return b.answers(ctx) == nil
	}
	return b.run.running()
}

// endedAfter is how many looks in a row must miss a node to call it ended.
const endedAfter = 5

// settle waits until the broker answers and notes what it says of itself.
func (b *Broker) settle(ctx context.Context) error {
	b.PIDs = b.run.pids()
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit,
		fmt.Errorf("no answer within %s", startLimit))
	defer cancel()
	absent := 0
	for {
		err := b.answers(ctx)
		if err == nil {
			return nil
		}
		// A process that is just replacing itself by another program, as the
		// node's scripts do, is not seen for a moment.
		absent++
		if b.run.running() {
			absent = 0
		}
		if absent >= endedAfter {
			return fmt.Errorf("the node ended before it answered; the end of its log:\n%s", b.run.logTail())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w; the end of the node's log:\n%s",
				context.Cause(ctx), err, b.run.logTail())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// saved is the JSON form of a Broker.
type saved struct {
	plain
	Node      *node      `json:"node,omitempty"`
	Container *container `json:"container,omitempty"`
}

// plain is a Broker without methods.
type plain Broker

// MarshalJSON saves the broker with what is needed to stop it later.
func (b *Broker) MarshalJSON() ([]byte, error) {
	s := saved{plain: plain(*b)}
	switch run := b.run.(type) {
	case *node:
		s.Node = run
	case *container:
		s.Container = run
	}
	return json.Marshal(s)
}

// UnmarshalJSON reads what [Broker.MarshalJSON] saved.
func (b *Broker) UnmarshalJSON(text []byte) error {
	var s saved
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	*b = Broker(s.plain)
	switch {
	case s.Node != nil:
		b.run = s.Node
	case s.Container != nil:
		b.run = s.Container
	}
	return nil
}

// Versions are the versions every behaviour is tested on, oldest first.
func Versions() []string { return slices.Clone(versions) }

var versions = []string{"3.10", "4.0", "4.3"}
