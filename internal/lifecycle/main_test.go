package lifecycle_test

import (
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
)

func TestMain(m *testing.M) { acctest.Main(m) }
