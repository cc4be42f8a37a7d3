# Runs with each new release. terraform apply -invoke=action.rabbitmq_discard.old
# runs it without one.
action "rabbitmq_discard" "old" {
  config {
    queue  = "orders.parking"
    vhost  = var.vhost
    filter = { older_than = "720h" }
  }
}

resource "terraform_data" "release" {
  input = var.release

  lifecycle {
    action_trigger {
      events  = [after_update]
      actions = [action.rabbitmq_discard.old]
    }
  }
}

variable "release" {
  type    = string
  default = "1"
}

variable "vhost" {
  type    = string
  default = "/"
}
