# Two ways to act on an audit. The check warns in every plan and apply about
# whatever in the virtual host can lose a message, whoever made it. The
# postcondition fails a run after which the queues of "orders" could lose one.

terraform {
  required_providers {
    rabbitmq = {
      source = "retrychain/rabbitmq"
    }
  }
}

provider "rabbitmq" {} # the environment says where the broker is

variable "vhost" {
  type    = string
  default = "/"
}

resource "rabbitmq_retry_chain" "orders" {
  name   = "orders"
  vhost  = var.vhost
  delays = ["5s", "1m"]
}

data "rabbitmq_retry_audit" "all" {
  vhost            = var.vhost
  minimum_severity = "warning"
}

check "no_message_is_lost" {
  assert {
    condition     = length(data.rabbitmq_retry_audit.all.findings) == 0
    error_message = join("\n", [for f in data.rabbitmq_retry_audit.all.findings : "${f.object.kind} ${f.object.name}: ${f.message} ${f.fix}"])
  }
}

data "rabbitmq_retry_audit" "orders" {
  vhost        = var.vhost
  name_pattern = "^orders($|\\.)"
  depends_on   = [rabbitmq_retry_chain.orders]

  lifecycle {
    postcondition {
      condition     = self.counts.error + self.counts.warning == 0
      error_message = join("\n", [for f in self.findings : "${f.object.kind} ${f.object.name}: ${f.message} ${f.fix}" if f.severity != "info"])
    }
  }
}

output "remarks" {
  value = [for f in data.rabbitmq_retry_audit.orders.findings : "${f.rule}: ${f.object.name}"]
}
