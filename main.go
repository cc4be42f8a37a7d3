// Command terraform-provider-rabbitmq serves the Terraform provider that
// declares how RabbitMQ queues retry.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"runtime/debug"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/provider"
)

// version is set by the release build.
var version = "dev"

// statisticsInterval is set by builds for tests, whose brokers renew their counts of
// messages more often than RabbitMQ does by default.
var statisticsInterval = "0s"

func main() {
	debugger := flag.Bool("debug", false, "serve for a debugger that is attached to this process")
	flag.Parse()
	collectLess()
	if !*debugger {
		silenceSDK()
	}
	statistics, err := time.ParseDuration(statisticsInterval)
	if err != nil {
		log.Fatal(err)
	}
	err = providerserver.Serve(context.Background(), provider.New(version, provider.WithStatisticsInterval(statistics)), providerserver.ServeOpts{
		Address: "registry.terraform.io/retrychain/rabbitmq",
		Debug:   *debugger,
	})
	if err != nil {
		log.Fatal(err)
	}
}

// collectLess lets the heap grow to five times of what is in use. The process
// is small and short-lived, and spent a third of its time collecting garbage.
func collectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// silenceSDK switches the SDK's own log off when nobody can see it: it writes
// some hundred lines for each resource, and without these variables Terraform
// reads them all and throws them away. That took a quarter of a plan.
func silenceSDK() {
	for _, variable := range []string{"TF_LOG", "TF_LOG_PROVIDER", "TF_LOG_SDK"} {
		if os.Getenv(variable) != "" {
			return
		}
	}
	_ = os.Setenv("TF_LOG_SDK", "OFF")
}
