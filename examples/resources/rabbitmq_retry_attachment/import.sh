# tiers/queue@vhost; write %2F for a / and %40 for an @ inside a name
terraform import rabbitmq_retry_attachment.orders 'standard/orders@/'
