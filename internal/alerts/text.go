package alerts

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// scalar writes a string in YAML: in single quotes, in which only those are
// doubled, or as JSON does if it holds what cannot be printed.
func scalar(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return "''" // a string can always be written
	}
	return string(quoted)
}

// plain keeps Prometheus from taking a name for a template.
func plain(name string) string { return strings.ReplaceAll(name, "{{", `{{ "{{" }}`) }

// promDuration writes a duration as PromQL does: without fractions, largest
// units first, such as 1h30m or 1500ms.
func promDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	var text strings.Builder
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if n := d / unit.size; n > 0 {
			text.WriteString(strconv.FormatInt(int64(n), 10) + unit.name)
			d %= unit.size
		}
	}
	return text.String()
}

// seconds writes a duration as a number of seconds.
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
