// Command test sets up what the tests need, runs them and says how far they are.
//
//	go run ./tools/test [FLAG...] [PACKAGE...]
//
// It gets brokers of the versions that are tested, a Terraform CLI and a provider
// binary, side by side, and then runs go test. Each acceptance test runs on one of the
// brokers, chosen by its name, unless its subject depends on the version; with -full
// every test runs on every broker. Packages default to all, the slowest first.
//
// With -cluster it runs the tests on clusters, which start their nodes themselves.
//
// Brokers that cannot be had are left out and named in the last line, unless
// RETRYCHAIN_ALL_BROKERS is set: then that is an error.
//
// The exit code is 1 if a test failed or something could not be set up, 2 for wrong
// usage, and 130 or 143 after SIGINT or SIGTERM.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// allPackages are the packages to test by default. Those that take longest go first,
// so that nothing is left for one core at the end.
var allPackages = []string{
	"./internal/resources/retrychain", "./internal/resources/redrive", "./internal/acctest/differential",
	"./internal/resources/retryattachment", "./...",
}

// options are the command line.
type options struct {
	run, brokers    string
	full, tofu      bool
	cluster         bool
	race            bool
	parallel, procs int
	timeout         time.Duration
	packages        []string
}

func main() {
	var o options
	flag.StringVar(&o.run, "run", "", "run only tests that match this regular expression, as with go test")
	flag.StringVar(&o.brokers, "brokers", "", "versions of RabbitMQ, such as 4.0,4.3 (default: all that are tested)")
	flag.BoolVar(&o.full, "full", false, "run every test on every broker, and all cases of the tests of killed runs")
	flag.BoolVar(&o.cluster, "cluster", false, "run the tests on clusters, and nothing else")
	flag.BoolVar(&o.tofu, "tofu", false, "use OpenTofu, even if there is a terraform")
	flag.BoolVar(&o.race, "race", false, "use the race detector, which needs a C compiler")
	// Acceptance tests mostly wait, so more of them run at once than there are cores.
	// With many more, brokers on two cores answer too late.
	flag.IntVar(&o.procs, "p", 2, "packages that run at once")
	flag.IntVar(&o.parallel, "parallel", 16, "tests of a package that run at once")
	flag.DurationVar(&o.timeout, "timeout", time.Hour, "time for one package")
	flag.Parse()
	switch o.packages = flag.Args(); {
	case len(o.packages) > 0:
	case o.cluster:
		o.packages = []string{"./internal/acctest/cluster"}
	default:
		o.packages = allPackages
	}
	os.Exit(signalled(func(ctx context.Context) error { return run(ctx, o) }))
}

// errFailed says that tests failed, which has been told.
var errFailed = errors.New("tests failed")

// signalled calls f with a context that ends with a signal, and returns the exit code.
func signalled(f func(context.Context) error) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var received os.Signal
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	for {
		select {
		case received = <-signals:
			cancel()
		case err := <-done:
			return exitCode(received, err)
		}
	}
}

func exitCode(received os.Signal, err error) int {
	if number, ok := received.(syscall.Signal); ok {
		return 128 + int(number)
	}
	if err == nil {
		return 0
	}
	if !errors.Is(err, errFailed) {
		fmt.Fprintln(os.Stderr, "test:", err)
	}
	return 1
}

func run(ctx context.Context, o options) (err error) {
	begin := time.Now()
	s, err := setUp(ctx, o)
	defer func() { err = errors.Join(err, s.tearDown()) }()
	if err != nil {
		return err
	}
	fmt.Printf("set up in %s\n\n", roughly(time.Since(begin)))
	r, err := s.test(ctx, o)
	if err != nil {
		return err
	}
	r.summary(os.Stdout, s.brokers, s.missing)
	if r.failed() {
		return errFailed
	}
	return nil
}

// test runs go test and follows it.
func (s *setup) test(ctx context.Context, o options) (*results, error) {
	args := append(goTest(o), o.packages...)
	if nice, err := exec.LookPath("nice"); err == nil {
		// Brokers go before tests: a node that gets no processor for seconds gives up
		// what it was asked for.
		args = append([]string{nice, "-n", "5"}, args...)
	}
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	command.Env = append(cli.Environ(os.Environ(), s.cli, s.tofu), "TF_ACC=1", cli.EnvProvider+"="+s.dir)
	command.Env = append(command.Env, rabbit.Environment(s.brokers)...)
	if os.Getenv("GOGC") == "" {
		command.Env = append(command.Env, "GOGC=400") // less of the processor's time for more memory
	}
	if o.cluster {
		command.Env = append(command.Env, rabbit.EnvCluster+"=1")
	}
	if o.full {
		command.Env = append(command.Env, rabbit.EnvFull+"=1")
	}
	// On Ctrl-C the terminal has sent it the same signal already, which does no harm.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 30 * time.Second
	command.Stderr = os.Stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	r := newResults(time.Now())
	follow(stdout, r, newDisplay(os.Stdout))
	err = command.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		r.exit = exit.ExitCode()
		err = nil
	}
	return r, err
}

// goTest is the command without packages. Results are not kept: a broker may have
// changed behind the same address. Lint has vetted the code.
func goTest(o options) []string {
	args := []string{
		"go", "test", "-json", "-count=1", "-vet=off", "-timeout=" + o.timeout.String(),
		fmt.Sprintf("-p=%d", o.procs), fmt.Sprintf("-parallel=%d", o.parallel),
	}
	if o.race {
		args = append(args, "-race")
	} else {
		args = append(args, "-ldflags=-s -w") // which are linked faster
	}
	if o.run != "" {
		args = append(args, "-run="+o.run)
	}
	return args
}

// roughly writes a duration for people.
func roughly(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	if d < 2*time.Minute {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
}

// short takes the module away from the name of a package.
func short(name string) string {
	const module = "github.com/retrychain/terraform-provider-rabbitmq"
	if name == module {
		return "."
	}
	return strings.TrimPrefix(name, module+"/")
}
