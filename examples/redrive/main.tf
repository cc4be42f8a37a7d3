# Parked messages are taken back when the number of the incident changes, and
# what is older than 30 days is deleted by the broker itself.

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

variable "incident" {
  type        = string
  default     = "none"
  description = "A new value runs the redrive again."
}

resource "rabbitmq_retry_chain" "orders" {
  name   = "orders"
  vhost  = var.vhost
  delays = ["5s", "30s"]

  # A time-to-live of the parking queue deletes messages.
  parking_queue = {
    message_ttl = "720h"
  }
}

resource "rabbitmq_redrive" "orders" {
  queue    = rabbitmq_retry_chain.orders.parking_queue.name
  vhost    = var.vhost
  triggers = { incident = var.incident }

  filter = {
    reason     = "rejected"
    older_than = "1m"
  }
  max_messages            = 10000
  max_messages_per_second = 200
}

output "moved" {
  value = rabbitmq_redrive.orders.moved
}
