package rabbit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// EnvEndpoints names the environment variable with the brokers to use
	// instead of starting some: management URLs separated by commas, such as
	// "http://user:password@localhost:15672". Without credentials they are
	// guest and guest.
	EnvEndpoints = "RABBITMQ_TEST_ENDPOINTS"
	// EnvAMQPEndpoints names the variable with their AMQP URLs in the same
	// order. Without it they are the hosts of the management URLs and the
	// ports those brokers report.
	EnvAMQPEndpoints = "RABBITMQ_TEST_AMQP_ENDPOINTS"
	// EnvDelayedEndpoints names the variable with brokers that have the plugin
	// rabbitmq_delayed_message_exchange, written as in [EnvEndpoints].
	EnvDelayedEndpoints = "RABBITMQ_TEST_DELAYED_ENDPOINTS"
	// EnvStatistics names the variable that says how often these brokers renew their
	// counts, such as "1.5s". Without it they do so every 5 s, RabbitMQ's default.
	EnvStatistics = "RABBITMQ_TEST_STATISTICS_INTERVAL"
	// EnvVersions names the variable that selects brokers by version:
	// "3.10,4.0".
	EnvVersions = "RETRYCHAIN_BROKERS"
)

// answerLimit is how long one answer may take: an overview with statistics takes
// 5 s and more on a busy node (4.0.5 and 4.3.6).
const answerLimit = 20 * time.Second

var versionPattern = regexp.MustCompile(`^[0-9]+\.[0-9]+$`)

// Given says whether the environment names brokers to use.
func Given() bool { return os.Getenv(EnvEndpoints) != "" }

// SelectedVersions returns the versions that [EnvVersions] asks for, none if
// it is not set.
func SelectedVersions() ([]string, error) {
	selected, err := ParseVersions(os.Getenv(EnvVersions))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", EnvVersions, err)
	}
	return selected, nil
}

// ParseVersions reads a list of versions such as "3.10,4.0".
func ParseVersions(text string) ([]string, error) {
	list := splitList(text)
	for _, v := range list {
		if !versionPattern.MatchString(v) {
			return nil, fmt.Errorf("%q is not a version such as %q", v, versions[0])
		}
	}
	return list, nil
}

// Environment returns the variables, as "NAME=value", that make another
// process use these brokers.
func Environment(brokers []*Broker) []string {
	var endpoints, amqp []string
	for _, b := range brokers {
		u, err := url.Parse(b.Endpoint)
		if err != nil {
			continue // never: the endpoint was made from a parsed URL
		}
		u.User = url.UserPassword(b.Username, b.Password)
		endpoints = append(endpoints, u.String())
		amqp = append(amqp, b.AMQP)
	}
	env := []string{
		EnvEndpoints + "=" + strings.Join(endpoints, ","),
		EnvAMQPEndpoints + "=" + strings.Join(amqp, ","),
	}
	if interval := StatisticsInterval(brokers); interval > 0 {
		env = append(env, EnvStatistics+"="+interval.String())
	}
	return env
}

// StatisticsInterval is how often the slowest of the brokers renews its counts; 0 is
// RabbitMQ's default.
func StatisticsInterval(brokers []*Broker) time.Duration {
	var slowest time.Duration
	for _, b := range brokers {
		if b.StatisticsInterval == 0 {
			return 0
		}
		slowest = max(slowest, b.StatisticsInterval)
	}
	return slowest
}

// givenStatistics reads [EnvStatistics].
func givenStatistics() (time.Duration, error) {
	text := os.Getenv(EnvStatistics)
	if text == "" {
		return 0, nil
	}
	interval, err := time.ParseDuration(text)
	if err != nil || interval <= 0 {
		return 0, fmt.Errorf("%s is %q: give a duration such as 1.5s", EnvStatistics, text)
	}
	return interval, nil
}

// given returns the brokers the environment names, of the wanted versions or
// all when none are wanted.
func given(ctx context.Context, wanted []string) ([]*Broker, error) {
	brokers, err := parseGiven(os.Getenv(EnvEndpoints), os.Getenv(EnvAMQPEndpoints))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	interval, err := givenStatistics()
	if err != nil {
		return nil, err
	}
	var chosen []*Broker
	for _, b := range brokers {
		b.StatisticsInterval = interval
		if err := b.answers(ctx); err != nil {
			return nil, fmt.Errorf("broker from %s: %w", EnvEndpoints, err)
		}
		b.Name = freeName(minor(b.Version), chosen)
		if len(wanted) == 0 || slices.Contains(wanted, minor(b.Version)) {
			chosen = append(chosen, b)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("none of the brokers in %s has a version that %s asks for (%s)",
			EnvEndpoints, EnvVersions, strings.Join(wanted, ", "))
	}
	return chosen, nil
}

// Delayed returns the brokers with the plugin rabbitmq_delayed_message_exchange
// that the environment names, none if it names none.
func Delayed(ctx context.Context) ([]*Broker, error) {
	brokers, err := parseGiven(os.Getenv(EnvDelayedEndpoints), "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", EnvDelayedEndpoints, err)
	}
	for i, b := range brokers {
		if err := b.answers(ctx); err != nil {
			return nil, fmt.Errorf("broker from %s: %w", EnvDelayedEndpoints, err)
		}
		b.Name = freeName(minor(b.Version), brokers[:i])
	}
	return brokers, nil
}

// freeName adds a number to a name that one of the brokers has.
func freeName(name string, brokers []*Broker) string {
	free := name
	taken := func(b *Broker) bool { return b.Name == free }
	for n := 2; slices.ContainsFunc(brokers, taken); n++ {
		free = name + "-" + strconv.Itoa(n)
	}
	return free
}

// parseGiven reads the two lists of addresses. The errors never hold an
// address, because it may hold a password.
func parseGiven(endpoints, amqp string) ([]*Broker, error) {
	amqpURLs := splitList(amqp)
	managementURLs := splitList(endpoints)
	if len(amqpURLs) > 0 && len(amqpURLs) != len(managementURLs) {
		return nil, fmt.Errorf("%s has %d entries, %s has %d: give one for each broker, in the same order",
			EnvAMQPEndpoints, len(amqpURLs), EnvEndpoints, len(managementURLs))
	}
	var brokers []*Broker
	for i, text := range managementURLs {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return nil, fmt.Errorf("%s: entry %d is not a URL such as http://user:password@localhost:15672",
				EnvEndpoints, i+1)
		}
		b := &Broker{Username: "guest", Password: "guest", Source: "address"}
		if u.User != nil {
			b.Username = u.User.Username()
			b.Password, _ = u.User.Password()
		}
		u.User = nil
		b.Endpoint = strings.TrimRight(u.String(), "/")
		if len(amqpURLs) > 0 {
			b.AMQP = amqpURLs[i]
		}
		brokers = append(brokers, b)
	}
	return brokers, nil
}

func splitList(text string) []string {
	var list []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

// overview is the part of GET /api/overview that is used.
type overview struct {
	Version   string `json:"rabbitmq_version"`
	Listeners []struct {
		Protocol string `json:"protocol"`
		Port     int    `json:"port"`
	} `json:"listeners"`
}

// answers checks that the AMQP listener and the management API of the broker
// answer, and notes the version and, if it is unknown, the AMQP address.
func (b *Broker) answers(ctx context.Context) error {
	// The AMQP listener comes last when a node starts: a request to the API
	// before that may only fill the node's log with errors.
	if b.AMQP != "" {
		if err := b.dial(ctx); err != nil {
			return err
		}
	}
	o, err := b.overview(ctx)
	if err != nil {
		return err
	}
	b.Version = o.Version
	if b.AMQP != "" {
		return nil
	}
	if b.AMQP, err = b.amqpFrom(o); err != nil {
		return err
	}
	return b.dial(ctx)
}

// dial checks that the AMQP listener accepts connections.
func (b *Broker) dial(ctx context.Context) error {
	u, err := url.Parse(b.AMQP)
	if err != nil {
		return errors.New("the AMQP address is not a URL")
	}
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", amqpAddress(u))
	if err != nil {
		return fmt.Errorf("AMQP listener: %w", err)
	}
	return conn.Close()
}

// overview asks the management API.
func (b *Broker) overview(ctx context.Context) (overview, error) {
	var o overview
	err := b.get(ctx, "/api/overview", &o)
	return o, err
}

// get reads JSON from the management API.
func (b *Broker) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.Endpoint+path, http.NoBody)
	if err != nil {
		return err
	}
	request.SetBasicAuth(b.Username, b.Password)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s%s: %s", b.Endpoint, path, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("GET %s%s: %w", b.Endpoint, path, err)
	}
	return nil
}

// amqpFrom derives the AMQP URL from the listeners the broker reports.
func (b *Broker) amqpFrom(o overview) (string, error) {
	u, err := url.Parse(b.Endpoint)
	if err != nil {
		return "", err
	}
	for _, l := range o.Listeners {
		if l.Protocol == "amqp" {
			return b.amqpURL(u.Hostname(), l.Port), nil
		}
	}
	return "", fmt.Errorf("the broker at %s reports no AMQP listener: set %s", b.Endpoint, EnvAMQPEndpoints)
}

// amqpURL is the URL of an AMQP listener with the broker's credentials.
func (b *Broker) amqpURL(host string, port int) string {
	u := url.URL{
		Scheme: "amqp",
		User:   url.UserPassword(b.Username, b.Password),
		Host:   net.JoinHostPort(host, strconv.Itoa(port)),
	}
	return u.String()
}

// amqpAddress is the host and port of an AMQP URL.
func amqpAddress(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "amqps":
		port = "5671"
	default:
		port = "5672"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// minor shortens "4.0.5" to "4.0".
func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return version
	}
	return parts[0] + "." + parts[1]
}
