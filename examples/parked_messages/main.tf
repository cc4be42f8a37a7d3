# Shows what is parked in a retry chain, and warns about it in every plan.

terraform {
  required_version = ">= 1.10"
  required_providers {
    rabbitmq = {
      source = "retrychain/rabbitmq"
    }
  }
}

provider "rabbitmq" {}

variable "vhost" {
  type    = string
  default = "/"
}

resource "rabbitmq_retry_chain" "orders" {
  name   = "orders"
  vhost  = var.vhost
  delays = ["5s", "30s", "5m"]
}

# All of them: how many, since when, from where.
data "rabbitmq_parked_messages" "orders" {
  queue = rabbitmq_retry_chain.orders.parking_queue.name
  vhost = var.vhost

  # The queue must be there before it can be read.
  depends_on = [rabbitmq_retry_chain.orders]
}

# Those of one customer that failed today.
data "rabbitmq_parked_messages" "of_one_tenant" {
  queue = rabbitmq_retry_chain.orders.parking_queue.name
  vhost = var.vhost
  limit = 20

  filter = {
    routing_key = "order.#"
    headers     = jsonencode({ tenant = "blue" })
    newer_than  = "24h"
  }

  # The queue must be there before it can be read.
  depends_on = [rabbitmq_retry_chain.orders]
}

check "nothing_is_parked" {
  assert {
    condition     = data.rabbitmq_parked_messages.orders.total == 0
    error_message = "${data.rabbitmq_parked_messages.orders.total} messages are parked in orders.parking."
  }
}

output "parked" {
  value = {
    total     = data.rabbitmq_parked_messages.orders.total
    by_reason = { for g in data.rabbitmq_parked_messages.orders.groups.by_reason : g.name => g.count }
    by_key    = { for g in data.rabbitmq_parked_messages.orders.groups.by_routing_key : g.name => g.count }
    ids       = data.rabbitmq_parked_messages.of_one_tenant.messages[*].id
  }
}
