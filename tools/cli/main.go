// Command cli prints the path of the Terraform-compatible program that the tests run.
// Without one on this machine it builds OpenTofu.
//
//	go run ./tools/cli [-tofu]
//
// TF_ACC_TERRAFORM_PATH names the program; without it terraform and then tofu
// are looked for on PATH. With -tofu it is OpenTofu in any case.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
)

func main() {
	tofu := flag.Bool("tofu", false, "OpenTofu, even if there is a terraform")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	path, err := find(ctx, *tofu)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cli:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}

func find(ctx context.Context, tofu bool) (string, error) {
	if tofu {
		return cli.FindTofu(ctx)
	}
	path, _, err := cli.Find(ctx)
	return path, err
}
