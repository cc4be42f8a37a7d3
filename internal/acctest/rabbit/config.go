package rabbit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// ports are the listeners of a broker. TLS is 0 without https.
type ports struct{ management, tls, amqp, metrics int }

// metricsPlugin exports metrics on a listener of its own.
const metricsPlugin = "rabbitmq_prometheus"

func (o Options) exportsMetrics() bool { return slices.Contains(o.Plugins, metricsPlugin) }

// check finds options that no broker can be started with.
func (o Options) check() error {
	if o.Version != "" && !versionPattern.MatchString(o.Version) {
		return fmt.Errorf("RabbitMQ version %q: give major.minor, such as %q", o.Version, versions[0])
	}
	if o.Newest && o.Version != "" {
		return fmt.Errorf("RabbitMQ version %q and the newest were asked for: give one of them", o.Version)
	}
	if o.PathPrefix != "" && (!strings.HasPrefix(o.PathPrefix, "/") || strings.HasSuffix(o.PathPrefix, "/")) {
		return fmt.Errorf("path prefix %q: give a path such as \"/rabbit\"", o.PathPrefix)
	}
	if o.TLS != nil && (o.TLS.CA == "" || o.TLS.Cert == "" || o.TLS.Key == "") {
		return errors.New("TLS needs the files of the CA, the certificate and the key")
	}
	return nil
}

// managementIP is the address of the management listener.
func (o Options) managementIP() string {
	if o.IPv6 {
		return "::1"
	}
	return "127.0.0.1"
}

// broker describes the broker that these options make on these ports.
func (o Options) broker(p ports) *Broker {
	b := &Broker{Username: "guest", Password: "guest"}
	if o.FastStatistics {
		b.StatisticsInterval = FastStatisticsInterval
	}
	b.AMQP = b.amqpURL("127.0.0.1", p.amqp)
	address := func(scheme string, port int) string {
		return scheme + "://" + net.JoinHostPort(o.managementIP(), fmt.Sprint(port)) + o.PathPrefix
	}
	b.Endpoint = address("http", p.management)
	if o.TLS != nil {
		b.TLSEndpoint = address("https", p.tls)
	}
	if o.exportsMetrics() {
		b.Metrics = fmt.Sprintf("http://127.0.0.1:%d/metrics", p.metrics)
	}
	return b
}

// A write-ahead log of this size lasts for all tests. When it is full, RabbitMQ
// writes a file for every quorum queue in it, one after the other on two cores,
// and starts no quorum queue meanwhile (ra_log_segment_writer:my_segments/2, 3.10
// to 4.3): 32 s for 400 queues on a disk that takes 30 ms to sync a file, measured
// on 4.3.6. The default size is full after about 1,500 tested queues.
const (
	walBytes   = 16 << 30
	walEntries = 1_000_000_000
)

// FastStatisticsInterval is how often a broker with [Options.FastStatistics] renews
// its counts, with some time for a busy machine.
const FastStatisticsInterval = 2 * time.Second

// advancedConfig returns advanced.config, which may not be empty. The management API
// samples every second at most. Quorum queues count at their tick; before 4.1 one that
// ticks before it has its configuration crashes (rabbit_quorum_queue:handle_tick/3),
// which with 500 ms happened on a busy machine.
func (o Options) advancedConfig() string {
	if !o.FastStatistics {
		return "[].\n"
	}
	return `[{rabbit, [{collect_statistics_interval, 500}, {quorum_tick_interval, 1500}]},
 {rabbitmq_management, [{sample_retention_policies, [{global, [{60, 1}]}, {basic, [{60, 1}]}, {detailed, [{60, 1}]}]}]}].
`
}

// config returns rabbitmq.conf for a node that keeps its TLS files in dir.
// A public node listens on every address, as one in a container must.
func (o Options) config(p ports, dir string, public bool) string {
	var text strings.Builder
	set := func(key string, value any) { fmt.Fprintf(&text, "%s = %v\n", key, value) }
	set("loopback_users.guest", !public)
	set("raft.wal_max_size_bytes", walBytes)
	set("raft.wal_max_entries", walEntries)
	set("management.tcp.port", p.management)
	if public {
		set("listeners.tcp.default", p.amqp)
	} else {
		set("listeners.tcp.1", fmt.Sprintf("127.0.0.1:%d", p.amqp))
		set("management.tcp.ip", o.managementIP())
	}
	if o.PathPrefix != "" {
		set("management.path_prefix", o.PathPrefix)
	}
	if o.TLS != nil {
		set("management.ssl.port", p.tls)
		if !public {
			set("management.ssl.ip", o.managementIP())
		}
		set("management.ssl.cacertfile", filepath.Join(dir, caFile))
		set("management.ssl.certfile", filepath.Join(dir, certFile))
		set("management.ssl.keyfile", filepath.Join(dir, keyFile))
		set("management.ssl.verify", o.TLS.verify())
		set("management.ssl.fail_if_no_peer_cert", o.TLS.FailIfNoPeerCert)
	}
	if o.exportsMetrics() {
		set("prometheus.tcp.port", p.metrics)
		if !public {
			set("prometheus.tcp.ip", "127.0.0.1")
		}
	}
	text.WriteString(strings.ReplaceAll(o.ExtraConfig, "{dir}", dir))
	if o.ExtraConfig != "" && !strings.HasSuffix(o.ExtraConfig, "\n") {
		text.WriteString("\n")
	}
	return text.String()
}

// plugins returns the file that lists the enabled plugins.
func (o Options) plugins() string {
	all := append([]string{"rabbitmq_management"}, o.Plugins...)
	return "[" + strings.Join(all, ",") + "].\n"
}

func (t *TLSFiles) verify() string {
	if t.VerifyPeer {
		return "verify_peer"
	}
	return "verify_none"
}

// Names of the copies of the TLS files in a node's directory.
const (
	caFile   = "ca.pem"
	certFile = "cert.pem"
	keyFile  = "key.pem"
)

// copyTo copies the files into dir, readable for the broker's user.
func (t *TLSFiles) copyTo(dir string) error {
	if t == nil {
		return nil
	}
	for name, from := range map[string]string{caFile: t.CA, certFile: t.Cert, keyFile: t.Key} {
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// blocks are the port blocks this process has given out.
var blocks struct {
	sync.Mutex
	used map[int]bool
}

// blockSize is how many ports a broker may need.
const blockSize = 8

// portBlock returns the first of blockSize consecutive ports on which nothing
// listens.
//
// They lie between 20000 and 32000, below the range from which systems give
// ports to outgoing connections: a broker that was killed finds its ports free
// when it is started again.
func portBlock() (int, error) {
	blocks.Lock()
	defer blocks.Unlock()
	if blocks.used == nil {
		blocks.used = map[int]bool{}
	}
	for range 100 {
		base := 20000 + blockSize*rand.IntN(12000/blockSize)
		if !blocks.used[base] && blockFree(base) {
			blocks.used[base] = true
			return base, nil
		}
	}
	return 0, errors.New("no free ports between 20000 and 32000")
}

// blockFree says whether nothing listens on the ports of a block.
func blockFree(base int) bool {
	for port := base; port < base+blockSize; port++ {
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}
