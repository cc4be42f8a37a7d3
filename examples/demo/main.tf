terraform {
  required_providers {
    rabbitmq = {
      source = "retrychain/rabbitmq"
    }
  }
}

provider "rabbitmq" {}

variable "vhost" {
  type = string
}

variable "strategy" {
  type    = string
  default = "headers"
}

resource "rabbitmq_retry_chain" "orders" {
  name     = "orders"
  vhost    = var.vhost
  strategy = var.strategy
  delays   = ["1s", "2s", "4s"]

  work_queue = {
    bindings = [{ exchange = "amq.topic", routing_key = "order.#" }]
  }
}

output "chain" {
  value = rabbitmq_retry_chain.orders
}
