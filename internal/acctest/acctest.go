// Package acctest is what acceptance tests share: brokers, virtual hosts, the
// provider and its configuration.
package acctest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/process"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/provider"
)

// Providers serves the provider in the test's own process.
var Providers = map[string]func() (tfprotov6.ProviderServer, error){
	"rabbitmq": func() (tfprotov6.ProviderServer, error) {
		return newProvider(rabbit.StatisticsInterval(brokers.all)), nil
	},
}

// NewProvider returns a provider whose waits suit the broker.
func NewProvider(b *rabbit.Broker) tfprotov6.ProviderServer { return newProvider(b.StatisticsInterval) }

func newProvider(interval time.Duration) tfprotov6.ProviderServer {
	return providerserver.NewProtocol6(provider.New("test", provider.WithStatisticsInterval(interval))())()
}

// startTimeout is long enough to make the trees of all brokers.
const startTimeout = 15 * time.Minute

var brokers struct {
	sync.Once
	all []*rabbit.Broker
	err error
}

// Main runs the tests of a package and stops the brokers that they started.
// Call it from TestMain.
func Main(m *testing.M) {
	if err := cli.DropMissingConfig(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Getenv("TF_ACC") != "" && os.Getenv("TF_ACC_TERRAFORM_PATH") == "" {
		path, _, err := cli.Find(context.Background())
		if err != nil {
			fmt.Fprintln(os.Stderr, "acceptance tests need a Terraform CLI:", err)
			os.Exit(1)
		}
		_ = os.Setenv("TF_ACC_TERRAFORM_PATH", path)
	}
	code := m.Run()
	if built.temporary {
		_ = os.RemoveAll(built.dir)
	}
	if err := errors.Join(process.Remove(), rabbit.StopAll(context.Background(), brokers.all)); err != nil {
		fmt.Fprintln(os.Stderr, "clean up after the tests:", err)
		code = 1
	}
	os.Exit(code)
}

// Each runs the test on one of the brokers, chosen by the test's name, and with
// [rabbit.EnvFull] on each of them. It is for tests whose subject is the provider and not the
// version of RabbitMQ. Subtests and other tests run in parallel: most of them wait
// most of the time. Without TF_ACC it skips.
func Each(t *testing.T, test func(t *testing.T, b *rabbit.Broker)) {
	t.Helper()
	t.Parallel()
	run(t, rabbit.Spread(t.Name(), Brokers(t)), test)
}

// EachWith is [Each] for the brokers that have what the test needs. It skips with that
// reason if there are none.
func EachWith(t *testing.T, need string, has func(*rabbit.Broker) bool, test func(t *testing.T, b *rabbit.Broker)) {
	t.Helper()
	t.Parallel()
	able := slices.DeleteFunc(slices.Clone(Brokers(t)), func(b *rabbit.Broker) bool { return !has(b) })
	if len(able) == 0 {
		t.Skip("no broker of these tests has what it needs: " + need)
	}
	run(t, rabbit.Spread(t.Name(), able), test)
}

// EachModern is [Each] for the brokers that write x-last-death headers.
func EachModern(t *testing.T, test func(t *testing.T, b *rabbit.Broker)) {
	t.Helper()
	EachWith(t, "strategy headers needs RabbitMQ 3.13.3", Modern, test)
}

// EveryVersion runs the test on every broker, in any case: its subject is what RabbitMQ
// does, or what the provider does differently by version.
func EveryVersion(t *testing.T, test func(t *testing.T, b *rabbit.Broker)) {
	t.Helper()
	t.Parallel()
	run(t, Brokers(t), test)
}

func run(t *testing.T, brokers []*rabbit.Broker, test func(t *testing.T, b *rabbit.Broker)) {
	t.Helper()
	for _, b := range brokers {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
}

// Sampled says whether the case of this number runs, see [rabbit.Sampled].
func Sampled(t *testing.T, number int) bool {
	t.Helper()
	return rabbit.Sampled(t.Name(), number)
}

// Modern says whether the broker is 3.13 or later.
func Modern(b *rabbit.Broker) bool { return AtLeast(b, 3, 13) }

// AtLeast says whether the broker is of that version or a later one.
func AtLeast(b *rabbit.Broker, major, minor int) bool {
	v, err := abilities.Parse(b.Version)
	return err == nil && v.AtLeast(fmt.Sprintf("%d.%d", major, minor))
}

// Brokers returns the brokers to test against, started on first use.
func Brokers(t *testing.T) []*rabbit.Broker {
	t.Helper()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("an acceptance test: set TF_ACC=1, or run make test")
	}
	brokers.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		brokers.all, brokers.err = rabbit.All(ctx)
	})
	if brokers.err != nil {
		t.Fatalf("start the brokers: %s", brokers.err)
	}
	return brokers.all
}

// API returns a client of the broker's management API, to look at and to change
// things behind the provider's back.
func API(t *testing.T, b *rabbit.Broker) *rabbithole.Client {
	t.Helper()
	client, err := b.API()
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// VHost makes a virtual host of the test's own and deletes it at its end.
func VHost(t *testing.T, b *rabbit.Broker) string {
	t.Helper()
	name := "test-" + strings.ToLower(rand.Text()[:10])
	t.Logf("virtual host %s on RabbitMQ %s", name, b.Version) // to be found in the broker's log
	api := API(t, b)
	do(t, func() (*http.Response, error) { return api.PutVhost(name, rabbithole.VhostSettings{}) })
	startVHost(t, b, name)
	do(t, func() (*http.Response, error) {
		return api.UpdatePermissionsIn(name, b.Username, rabbithole.Permissions{Configure: ".*", Write: ".*", Read: ".*"})
	})
	t.Cleanup(func() { do(t, func() (*http.Response, error) { return api.DeleteVhost(name) }) })
	return name
}

// startVHost starts the virtual host on nodes of a cluster that missed its creation because
// they had not quite started themselves (seen on 3.10.8).
func startVHost(t *testing.T, b *rabbit.Broker, name string) {
	t.Helper()
	api := API(t, b)
	var vhost *rabbithole.VhostInfo
	if !poll.Until(time.Minute, func() bool {
		var err error
		if vhost, err = api.GetVhost(name); err != nil {
			return false
		}
		runs := true
		for node, state := range vhost.ClusterState {
			if state == "running" {
				continue
			}
			runs = false
			address := b.Endpoint + "/api/vhosts/" + url.PathEscape(name) + "/start/" + url.PathEscape(node)
			start, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			start.SetBasicAuth(b.Username, b.Password)
			if response, err := http.DefaultClient.Do(start); err == nil {
				_ = response.Body.Close()
			}
		}
		return runs
	}) {
		t.Fatalf("virtual host %s does not start everywhere: %v", name, vhost)
	}
}

func do(t *testing.T, call func() (*http.Response, error)) {
	t.Helper()
	resp, err := call()
	if err != nil {
		t.Error(err)
		return
	}
	_ = resp.Body.Close()
}

// Do fails the test when a call of the management API fails.
func Do(t *testing.T, resp *http.Response, err error) {
	t.Helper()
	do(t, func() (*http.Response, error) { return resp, err })
}

// Worker connects to the virtual host until the test ends.
func Worker(t *testing.T, b *rabbit.Broker, vhost string) *worker.Worker {
	t.Helper()
	w, err := worker.Dial(b.AMQP, vhost)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// Config writes a configuration with the provider pointed at the broker.
func Config(b *rabbit.Broker, format string, args ...any) string {
	return fmt.Sprintf("provider \"rabbitmq\" {\n  endpoint = %q\n  username = %q\n  password = %q\n  amqp_endpoint = %q\n}\n\n",
		b.Endpoint, b.Username, b.Password, amqpAddress(b)) + fmt.Sprintf(format, args...)
}

// amqpAddress is the broker's AMQP URL without credentials.
func amqpAddress(b *rabbit.Broker) string {
	u, err := url.Parse(b.AMQP)
	if err != nil {
		return b.AMQP
	}
	return u.Scheme + "://" + u.Host
}
