# The first message with its payload. A postcondition may look at it, and it may
# be given on to write-only arguments, provider blocks and provisioners. The queue
# has to be there when the plan is made.
ephemeral "rabbitmq_parked_messages" "first" {
  queue = "orders.parking"
  limit = 1

  lifecycle {
    postcondition {
      condition     = alltrue([for m in self.messages : can(jsondecode(m.payload))])
      error_message = "The first parked message is not JSON."
    }
  }
}
