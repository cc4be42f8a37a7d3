// Command terraform-provider-rabbitmq serves the Terraform provider that
// declares how RabbitMQ queues retry.
package main

import (
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
	server := providerserver.NewProtocol6(provider.New(version, provider.WithStatisticsInterval(statistics))())
	if err := serve(server(), *debugger); err != nil {
		log.Fatal(err)
	}
}

// memoryLimit is how much memory the process takes before it collects garbage more
// often, in bytes. The process itself is larger: a plan of 1,000 chains peaks at 149 MB.
const memoryLimit = 128 << 20

// collectLess lets the heap grow to five times what is in use, up to the limit. The
// process is short-lived and collects garbage for a third of its time otherwise.
func collectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
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
