# name@vhost; write %40 for an @ inside the virtual host's name
terraform import rabbitmq_retry_tiers.standard 'standard@/'
