// Command cli finds the Terraform-compatible program that the tests run.
// Without one on this machine it builds OpenTofu.
//
//	go run ./tools/cli [-tofu]                   print its path
//	go run ./tools/cli [-tofu] exec -- COMMAND   run a command in an environment in which
//	                                             terraform-plugin-testing uses it
//
// TF_ACC_TERRAFORM_PATH names the program; without it terraform and then tofu
// are looked for on PATH. With -tofu it is OpenTofu in any case.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
)

func main() {
	tofu := flag.Bool("tofu", false, "OpenTofu, even if there is a terraform")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: cli [-tofu] [exec -- COMMAND]")
		flag.PrintDefaults()
	}
	flag.Parse()
	command, err := parse(flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "cli:", err)
		flag.Usage()
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, *tofu, command)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cli:", err)
	}
	os.Exit(code)
}

// parse returns the command after "exec --", nil for no arguments.
func parse(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, nil
	}
	if args[0] != "exec" {
		return nil, fmt.Errorf("unknown argument %q", args[0])
	}
	args = args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return nil, errors.New("exec needs a command")
	}
	return args, nil
}

// run returns the exit code, which is that of the command if one was run.
func run(ctx context.Context, tofu bool, command []string) (int, error) {
	path, isTofu, err := find(ctx, tofu)
	if err != nil {
		return 1, err
	}
	if command == nil {
		fmt.Println(path)
		return 0, nil
	}
	child := exec.CommandContext(ctx, command[0], command[1:]...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.Env = cli.Environ(os.Environ(), path, isTofu)
	// The child gets the chance to stop brokers it has started. On Ctrl-C
	// the terminal has sent it the same signal already, which does no harm.
	child.Cancel = func() error { return child.Process.Signal(os.Interrupt) }
	child.WaitDelay = time.Minute
	err = child.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		// The command has said itself what was wrong.
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 1, fmt.Errorf("run %s: %w", command[0], err)
	}
	return 0, nil
}

func find(ctx context.Context, tofu bool) (path string, isTofu bool, err error) {
	if tofu {
		path, err = cli.FindTofu(ctx)
		return path, true, err
	}
	return cli.Find(ctx)
}
