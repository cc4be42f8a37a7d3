terraform {
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

# Everything a chain can say. The exchanges must exist when this is applied.
resource "rabbitmq_retry_chain" "orders" {
  name     = "orders"
  vhost    = var.vhost
  delays   = ["5s", "30s", "5m", "1h"]
  strategy = "headers"

  queue_type           = "quorum"
  dead_letter_strategy = "at-least-once"

  work_queue = {
    name                   = "orders.work"
    delivery_limit         = 10
    message_ttl            = "24h"
    single_active_consumer = false
    arguments = jsonencode({
      "x-queue-leader-locator" = "balanced"
    })
    bindings = [
      { exchange = "amq.topic", routing_key = "order.created" },
      { exchange = "amq.topic", routing_key = "order.changed.#" },
      {
        exchange  = "amq.headers"
        arguments = jsonencode({ "x-match" = "all", type = "order", version = 2 })
      },
    ]
  }

  parking_queue = {
    name = "orders.failed"
  }

  deletion_policy = "if_empty"

  timeouts = {
    create = "2m"
    delete = "5m"
  }
}

output "objects" {
  description = "Every exchange, queue and binding of the chain."
  value       = rabbitmq_retry_chain.orders.topology
}

output "diagram" {
  description = "The same as a Mermaid flowchart."
  value       = provider::rabbitmq::topology_diagram(rabbitmq_retry_chain.orders.topology)
}
